#pragma once

// Adding a node to a running fabric, removing one, or changing a virtual function, as requested by
// `weft node` and `weft vf`.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/identifiers.h"
#include "base/keys.h"
#include "base/result.h"
#include "fabric/topology.h"
#include "verbs/port_policy.h"

namespace weft::node {

/// An entry of a port's P_Key table: by the key that is in it, else by its index.
struct PKeyChoice {
  std::optional<PKey> key{};
  std::uint16_t index{};
  bool operator==(const PKeyChoice&) const = default;
};

/// What is said of a virtual function; the rest stays as it is, or by default.
struct FunctionChange {
  std::optional<std::vector<PKeyChoice>> pkeys{};  // no entry twice
  std::optional<std::uint32_t> mads_per_second{};  // 0, here and below: no limit
  std::optional<std::uint32_t> groups{};
  std::optional<verbs::PortPolicy> policy{};
  std::optional<bool> is_trusted{};
};

/// GUIDs that a virtual function gets in place of those that it has; neither is 0 or all ones.
struct FunctionGuids {
  std::optional<Guid> node{};
  std::optional<Guid> port{};
  [[nodiscard]] bool empty() const { return !node && !port; }
};

/// A parsed request.
struct NodeChange {
  enum class Action : std::uint8_t { Add, Remove, Set, Move, Assign, Unassign };

  Action action{Action::Add};
  std::string name;
  bool is_forced{};  // Remove: even if programs on the host have devices open

  bool is_function{};  // it is about a virtual function; not known of Remove
  // Add, Move and Assign, of a virtual function: the port that it is to share, as h1, h1:1 or
  // h1/weft1:2; of Add empty: none yet
  std::string of{};

  // Add:
  fabric::NodeKind kind{fabric::NodeKind::Host};
  std::uint32_t ports{};  // of a switch, or of each HCA of a host
  std::uint32_t hcas{1};  // of a host
  // existing ports to which the new node's ports are cabled, in order
  std::vector<std::string> links;

  // Add and Set, of a virtual function:
  FunctionChange function{};
  // Set, of a virtual function:
  FunctionGuids guids{};
};

inline constexpr std::string_view kNodeChangeGrammar =
    "add host NAME link=PORT... [hcas=N] [ports=N], add switch NAME ports=N link=PORT..., "
    "add vf NAME [of=PORT] [QUOTA]..., set vf NAME QUOTA... [node_guid=GUID] [port_guid=GUID], "
    "assign vf NAME of=PORT, unassign vf "
    "NAME, move vf NAME of=PORT or remove NAME [force], where a QUOTA is "
    "pkeys=ENTRY,..., mads=N or groups=N (0: no limit), policy=down|up|follow or trust=on|off, an "
    "ENTRY of the port's P_Key table is an index or a key as 0x8005, and a GUID is as "
    "0x0002c90300000001";

/// Parses kNodeChangeGrammar. Names and ports are not checked against the fabric.
[[nodiscard]] Result<NodeChange> read_node_change(std::string_view text);

}  // namespace weft::node
