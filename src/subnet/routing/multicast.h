#pragma once

// Spanning trees for multicast groups.

#include <cstdint>
#include <span>
#include <vector>

#include "base/identifiers.h"
#include "subnet/routing/graph.h"

namespace weft::subnet {

/// A group member's attachment point.
struct TreeMember {
  std::uint32_t at{};  // position
  PortNumber port{};   // port of that switch; 0 for the switch itself
  bool receives{true};
};

/// A spanning tree of all switches, or a forest if they are not all connected.
struct SpanningTree {
  std::vector<std::uint32_t> order;      // positions, parents first
  std::vector<std::uint32_t> to_parent;  // by position: link to the parent; kUnreachable at roots
};

/// Candidate roots, best first: the centre switches of a tree topology. Groups are distributed over
/// them.
[[nodiscard]] std::vector<std::uint32_t> tree_roots(const RoutingGraph& graph);

/// Grows a tree of shortest paths to the root. Switches that cannot reach it get trees of their
/// own.
[[nodiscard]] SpanningTree grow_tree(const RoutingGraph& graph, std::uint32_t root);

/// The ports to which each switch (by position) forwards the group's packets: towards the root if a
/// member below sends and one elsewhere receives, and into branches with receiving members. Every
/// member's packets thus reach each receiver exactly once.
[[nodiscard]] std::vector<PortMask> multicast_masks(const RoutingGraph& graph,
                                                    const SpanningTree& tree,
                                                    std::span<const TreeMember> members);

}  // namespace weft::subnet
