#pragma once

// Adding a node to a running fabric, or removing one, as requested by `weft node`.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "fabric/topology.h"

namespace weft::node {

/// A parsed request.
struct NodeChange {
  enum class Action : std::uint8_t { Add, Remove };

  Action action{Action::Add};
  std::string name;
  bool is_forced{};  // Remove: even if programs on the host have devices open

  // Add:
  std::string of{};  // a virtual function: the port that it shares, as h1, h1:1 or h1/weft1:2
  fabric::NodeKind kind{fabric::NodeKind::Host};
  std::uint32_t ports{};  // of a switch, or of each HCA of a host
  std::uint32_t hcas{1};  // of a host
  // existing ports to which the new node's ports are cabled, in order
  std::vector<std::string> links;
};

inline constexpr std::string_view kNodeChangeGrammar =
    "add host NAME link=PORT... [hcas=N] [ports=N], add switch NAME ports=N link=PORT..., "
    "add vf NAME of=PORT or remove NAME [force]";

/// Parses kNodeChangeGrammar. Names and ports are not checked against the fabric.
[[nodiscard]] Result<NodeChange> read_node_change(std::string_view text);

}  // namespace weft::node
