#pragma once

// A node that comes to a fabric that runs, or leaves it, as `weft node` says it.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "fabric/topology.h"

namespace weft::node {

struct NodeChange {
  enum class Action : std::uint8_t { Add, Remove };

  Action action{Action::Add};
  std::string name;
  bool is_forced{};  // Remove: programs of the host lose their devices

  // Add:
  fabric::NodeKind kind{fabric::NodeKind::Host};
  std::uint32_t ports{};           // of a switch; of a host's HCA
  std::uint32_t hcas{1};           // of a host
  std::vector<std::string> links;  // ports of the fabric that its own, in order, are cabled to
};

inline constexpr std::string_view kNodeChangeGrammar =
    "add host NAME link=PORT... [hcas=N] [ports=N], add switch NAME ports=N link=PORT... or remove "
    "NAME [force]";

/// Text of kNodeChangeGrammar. Whether the fabric has the names and ports is another's question.
[[nodiscard]] Result<NodeChange> read_node_change(std::string_view text);

}  // namespace weft::node
