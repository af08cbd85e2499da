#include <tuple>

#include "subnet/routing.h"
#include "subnet/routing_choice.h"
#include "subnet/routing_layers.h"

namespace weft::subnet {
namespace {

/// Searches for shortest paths to one LID after the other. Hops count most, then how many hosts
/// already send over the links of a path.
class WeightedSearch {
 public:
  explicit WeightedSearch(const RoutingGraph& graph)
      : graph_(graph), load_(graph.links.size()), diversity_(graph.size()) {}

  void route(std::uint32_t to, Routing& routing) {
    distance_.assign(graph_.size(), kFar);
    distance_[to] = 0;
    queue_.assign(1, to);
    measure_distances(graph_, distance_, queue_);
    for (const RoutingDestination& destination : graph_.destinations_at(to)) {
      search(destination, routing);
    }
  }

 private:
  void search(const RoutingDestination& destination, Routing& routing) {
    cost_.assign(graph_.size(), 0);
    taken_.assign(graph_.size(), kFar);
    senders_.assign(graph_.size(), 0);
    for (const std::uint32_t from : queue_) {
      if (from == destination.at) {
        continue;
      }
      PathDiversity& diversity = diversity_[from];
      const bool differs = diversity.begin(destination);
      std::tuple<std::uint32_t, std::uint64_t> least{kFar, 0};
      for (std::uint32_t i = graph_.first_link[from]; i < graph_.first_link[from + 1]; ++i) {
        const RoutingLink& link = graph_.links[i];
        if (distance_[link.to] + 1 != distance_[from]) {
          continue;
        }
        const std::tuple<std::uint32_t, std::uint64_t> cost{differs ? diversity.shared(link) : 0,
                                                            cost_[link.to] + load_[i]};
        if (cost < least) {
          least = cost;
          taken_[from] = i;
        }
      }
      cost_[from] = std::get<1>(least);
      diversity.take(graph_.links[taken_[from]]);
      routing.forwarding[from][destination.lid.value()] = graph_.links[taken_[from]].port;
    }
    for (std::size_t i = queue_.size(); i-- > 1;) {
      const std::uint32_t from = queue_[i];
      senders_[from] += std::max(graph_.host_ports[from], 1U);
      load_[taken_[from]] += senders_[from];
      senders_[graph_.links[taken_[from]].to] += senders_[from];
    }
  }

  const RoutingGraph& graph_;
  std::vector<std::uint64_t> load_;  // paths, by link
  std::vector<PathDiversity> diversity_;
  std::vector<std::uint32_t> distance_;
  std::vector<std::uint32_t> queue_;
  std::vector<std::uint64_t> cost_;
  std::vector<std::uint32_t> taken_;
  std::vector<std::uint64_t> senders_;
};

}  // namespace

Result<Routing> route_deadlock_free(const RoutingGraph& graph, std::uint8_t vls) {
  Routing routing = start_routing(graph, RoutingEngine::DeadlockFree);
  WeightedSearch search{graph};
  for (std::uint32_t to = 0; to < graph.size(); ++to) {
    search.route(to, routing);
  }
  if (const auto assigned = assign_layers(graph, vls, routing); !assigned) {
    return std::unexpected(assigned.error());
  }
  return routing;
}

}  // namespace weft::subnet
