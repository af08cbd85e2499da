#pragma once

// Routing engines: from a graph to what every switch does with every LID. Pure functions. One
// thread.

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/identifiers.h"
#include "base/result.h"
#include "subnet/routing/graph.h"

namespace weft::subnet {

enum class RoutingEngine : std::uint8_t { MinHop, UpDown, FatTree, DeadlockFree };

[[nodiscard]] std::string_view name_of(RoutingEngine engine);

struct Routing {
  RoutingEngine engine{};
  std::vector<std::vector<PortNumber>> forwarding{};  // by position, then by LID
  /// By position of the switch that a packet enters first, then by its DLID; empty: always SL 0.
  std::vector<std::vector<std::uint8_t>> sl{};
  std::uint8_t vl_count{1};  // of data VLs; SL n goes on VL n

  [[nodiscard]] ServiceLevel sl_of(std::uint32_t first_switch, Lid destination) const {
    return sl.empty() ? ServiceLevel{} : ServiceLevel{sl[first_switch][destination.value()]};
  }
};

/// Shortest paths; where there are several, each link gets about as many LIDs.
[[nodiscard]] Routing route_min_hop(const RoutingGraph& graph);

/// No packet goes up after it went down, so no cycle of full buffers is possible. Which way is up:
/// an order of the switches that has those farthest from hosts first, and in which all but the
/// first have a neighbour before them, so that everything is reached.
[[nodiscard]] Routing route_up_down(const RoutingGraph& graph);

/// For trees whose hosts are all at the leaves: a packet goes up by the digits of its destination,
/// so that each port upwards serves as many hosts, and hosts that all send to the n-th host behind
/// them share no link. Refused when the graph is no tree of that kind, or when failures leave
/// hosts that it cannot join.
[[nodiscard]] Result<Routing> route_fat_tree(const RoutingGraph& graph);

/// Shortest paths, each link as little loaded as possible (a search for each destination that
/// counts the paths before it, as Domke, Hoefler and Nagel, IPDPS 2011); then each path gets the
/// first of `vls` layers in which it closes no circle of dependencies. Refused when they are too
/// few.
[[nodiscard]] Result<Routing> route_deadlock_free(const RoutingGraph& graph, std::uint8_t vls);

}  // namespace weft::subnet
