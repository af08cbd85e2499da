#pragma once

// Routing engines: compute all forwarding tables from a switch graph. Pure functions.

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/identifiers.h"
#include "base/result.h"
#include "subnet/routing/graph.h"

namespace weft::subnet {

/// Available routing engines, with the names of OpenSM where it has them.
enum class RoutingEngine : std::uint8_t { MinHop, UpDown, FatTree, DeadlockFree };

[[nodiscard]] std::string_view name_of(RoutingEngine engine);

/// Result of a routing engine.
struct Routing {
  RoutingEngine engine{};
  // egress port, by switch position, then by LID
  std::vector<std::vector<PortNumber>> forwarding{};
  /// By position of a packet's first switch, then by DLID; empty if SL 0 serves all paths.
  std::vector<std::vector<std::uint8_t>> sl{};
  std::uint8_t vl_count{1};  // number of data VLs; SL n maps to VL n

  [[nodiscard]] ServiceLevel sl_of(std::uint32_t first_switch, Lid destination) const {
    return sl.empty() ? ServiceLevel{} : ServiceLevel{sl[first_switch][destination.value()]};
  }
};

/// Shortest paths, with LIDs balanced over equally short ones.
[[nodiscard]] Routing route_min_hop(const RoutingGraph& graph);

/// Up/down routing: a packet that went down never goes up again, so buffer dependencies cannot form
/// a cycle. Switches are ordered by decreasing distance from hosts, such that each but the first
/// has an earlier neighbour; this guarantees that everything is reached.
[[nodiscard]] Routing route_up_down(const RoutingGraph& graph);

/// Fat-tree routing for trees with all hosts at the leaves. Going up, the digits of the destination
/// select the port, so that upward ports carry equally many hosts and shift permutations are free
/// of contention. Fails if the graph is no such tree, or if failed links leave hosts that it cannot
/// connect.
[[nodiscard]] Result<Routing> route_fat_tree(const RoutingGraph& graph);

/// Shortest paths balanced by a weighted search per destination that counts the paths already
/// placed (as in Domke, Hoefler and Nagel, IPDPS 2011); each path then gets the first of `vls`
/// layers in which it closes no cycle of channel dependencies. Fails if the layers do not suffice.
[[nodiscard]] Result<Routing> route_deadlock_free(const RoutingGraph& graph, std::uint8_t vls);

}  // namespace weft::subnet
