#include "subnet/routing/choice.h"
#include "subnet/routing/routing.h"

namespace weft::subnet {

std::string_view name_of(RoutingEngine engine) {
  switch (engine) {
    case RoutingEngine::MinHop:
      return "min-hop";
    case RoutingEngine::UpDown:
      return "up/down";
    case RoutingEngine::FatTree:
      return "fat-tree";
    case RoutingEngine::DeadlockFree:
      return "deadlock-free";
  }
  return {};
}

Routing start_routing(const RoutingGraph& graph, RoutingEngine engine) {
  Routing routing{.engine = engine};
  routing.forwarding.assign(graph.size(),
                            std::vector<PortNumber>(graph.lid_end, wire::kNoForwardingPort));
  for (const RoutingDestination& destination : graph.destinations) {
    routing.forwarding[destination.at][destination.lid.value()] = destination.port;
  }
  return routing;
}

Routing route_min_hop(const RoutingGraph& graph) {
  Routing routing = start_routing(graph, RoutingEngine::MinHop);
  LeastLoaded chooser{graph};
  std::vector<std::uint32_t> distance;
  std::vector<std::uint32_t> queue;
  std::vector<std::uint32_t> candidates;
  for (std::uint32_t to = 0; to < graph.size(); ++to) {
    distance.assign(graph.size(), kUnreachable);
    distance[to] = 0;
    queue.assign(1, to);
    measure_distances(graph, distance, queue);
    for (const std::uint32_t from : queue) {
      candidates.clear();
      for (std::uint32_t i = graph.first_link[from]; i < graph.first_link[from + 1]; ++i) {
        if (distance[graph.links[i].to] + 1 == distance[from]) {
          candidates.push_back(i);
        }
      }
      if (!candidates.empty()) {
        choose_links(graph, candidates, from, to, chooser, routing);
      }
    }
  }
  return routing;
}

}  // namespace weft::subnet
