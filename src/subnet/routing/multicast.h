#pragma once

// Trees for multicast groups.

#include <cstdint>
#include <span>
#include <vector>

#include "base/identifiers.h"
#include "subnet/routing/graph.h"

namespace weft::subnet {

/// Where a member hangs on the switches.
struct TreeMember {
  std::uint32_t at{};  // position
  PortNumber port{};   // there: 0 for the switch itself
  bool receives{true};
};

/// A spanning tree of all switches, or of what is joined.
struct SpanningTree {
  std::vector<std::uint32_t> order;      // positions, parents first
  std::vector<std::uint32_t> to_parent;  // by position: the link; kFar at roots
};

/// Switches that trees may start from, the best first: the highest of a tree of switches. Groups
/// are spread over them.
[[nodiscard]] std::vector<std::uint32_t> tree_roots(const RoutingGraph& graph);

/// Shortest ways to the root. What cannot reach it has trees of its own.
[[nodiscard]] SpanningTree grow_tree(const RoutingGraph& graph, std::uint32_t root);

/// By position: the ports that each switch forwards the group's packets to. A switch forwards up if
/// members that receive are outside its branch and a member inside, and down into branches with
/// members that receive; so every member's packets reach all others once.
[[nodiscard]] std::vector<PortMask> multicast_masks(const RoutingGraph& graph,
                                                    const SpanningTree& tree,
                                                    std::span<const TreeMember> members);

}  // namespace weft::subnet
