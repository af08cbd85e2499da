#include <functional>
#include <numeric>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "subnet/routing/choice.h"
#include "subnet/routing/ranked.h"
#include "subnet/routing/routing.h"

namespace weft::subnet {
namespace {

/// Distance from the highest level; switches that reach no host are lowest.
std::uint32_t depth(const RoutingGraph& graph, std::uint32_t position) {
  return graph.level[position] == kUnreachable ? kUnreachable
                                               : kUnreachable - 1 - graph.level[position];
}

/// The order used by route_up_down(), grown from one switch by its highest neighbour.
std::vector<std::uint32_t> connected_order(const RoutingGraph& graph) {
  // Ordered by depth, hops from the first switch, and position; the smallest is added next.
  using Next = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;
  std::vector<std::uint32_t> rank(graph.size(), kUnreachable);
  std::vector<std::uint32_t> hops(graph.size(), kUnreachable);
  std::vector<std::uint32_t> roots(graph.size());
  std::iota(roots.begin(), roots.end(), 0U);
  std::ranges::sort(roots, {}, [&](std::uint32_t i) { return std::pair{depth(graph, i), i}; });
  std::uint32_t last = 0;
  for (const std::uint32_t root : roots) {  // one per connected component
    if (rank[root] != kUnreachable) {
      continue;
    }
    std::priority_queue<Next, std::vector<Next>, std::greater<>> frontier;
    hops[root] = 0;
    frontier.emplace(depth(graph, root), 0, root);
    while (!frontier.empty()) {
      const std::uint32_t position = std::get<2>(frontier.top());
      frontier.pop();
      rank[position] = last++;
      for (const RoutingLink& link : graph.links_of(position)) {
        if (hops[link.to] == kUnreachable) {
          hops[link.to] = hops[position] + 1;
          frontier.emplace(depth(graph, link.to), hops[link.to], link.to);
        }
      }
    }
  }
  return rank;
}

}  // namespace

Routing route_up_down(const RoutingGraph& graph) {
  Routing routing = start_routing(graph, RoutingEngine::UpDown);
  LeastLoaded chooser{graph};
  RankedPaths paths{graph, connected_order(graph)};
  for (std::uint32_t to = 0; to < graph.size(); ++to) {
    paths.for_destination(to, [&](std::uint32_t from, std::span<const std::uint32_t> candidates) {
      if (!candidates.empty()) {
        choose_links(graph, candidates, from, to, chooser, routing);
      }
    });
  }
  return routing;
}

}  // namespace weft::subnet
