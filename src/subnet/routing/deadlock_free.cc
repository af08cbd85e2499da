#include <algorithm>

#include "subnet/routing/choice.h"
#include "subnet/routing/layers.h"
#include "subnet/routing/routing.h"

namespace weft::subnet {
namespace {

/// Finds shortest paths to one LID after another. Among paths of equal length, prefers links that
/// fewer hosts already use.
class WeightedSearch {
 public:
  explicit WeightedSearch(const RoutingGraph& graph)
      : graph_(graph), load_(graph.links.size()), diversity_(graph.size()), taken_(graph.size()) {}

  void route(std::uint32_t to, Routing& routing) {
    distance_.assign(graph_.size(), kUnreachable);
    distance_[to] = 0;
    queue_.assign(1, to);
    measure_distances(graph_, distance_, queue_);
    find_candidates();
    for (const RoutingDestination& destination : graph_.destinations_at(to)) {
      search(destination, routing);
    }
  }

 private:
  /// Collects the links towards the destination, for each switch in queue order.
  void find_candidates() {
    candidates_.clear();
    first_candidate_.assign(1, 0);
    for (const std::uint32_t from : queue_) {
      for (std::uint32_t i = graph_.first_link[from]; i < graph_.first_link[from + 1]; ++i) {
        if (distance_[graph_.links[i].to] + 1 == distance_[from]) {
          candidates_.push_back({i, graph_.links[i].to});
        }
      }
      first_candidate_.push_back(static_cast<std::uint32_t>(candidates_.size()));
    }
  }

  void search(const RoutingDestination& destination, Routing& routing) {
    cost_.assign(graph_.size(), 0);
    for (std::size_t at = 1; at < queue_.size(); ++at) {
      const std::uint32_t from = queue_[at];
      PathDiversity& diversity = diversity_[from];
      const bool differs = diversity.begin(destination);
      std::uint32_t least_shared = kUnreachable;
      std::uint64_t least = 0;
      for (std::uint32_t i = first_candidate_[at]; i < first_candidate_[at + 1]; ++i) {
        const Candidate& each = candidates_[i];
        const std::uint32_t shared = differs ? diversity.shared(graph_.links[each.link]) : 0;
        const std::uint64_t cost = cost_[each.to] + load_[each.link];
        if (shared < least_shared || (shared == least_shared && cost < least)) {
          least_shared = shared;
          least = cost;
          taken_[from] = each.link;
        }
      }
      cost_[from] = least;
      diversity.take(graph_.links[taken_[from]]);
      routing.forwarding[from][destination.lid.value()] = graph_.links[taken_[from]].port;
    }
    add_load();
  }

  /// Adds the load of the new paths; each switch contributes the number of its hosts.
  void add_load() {
    senders_.assign(graph_.size(), 0);
    for (std::size_t i = queue_.size(); i-- > 1;) {
      const std::uint32_t from = queue_[i];
      const std::uint32_t link = taken_[from];
      senders_[from] += std::max(graph_.host_ports[from], 1U);
      load_[link] += senders_[from];
      senders_[graph_.links[link].to] += senders_[from];
    }
  }

  struct Candidate {
    std::uint32_t link;
    std::uint32_t to;
  };

  const RoutingGraph& graph_;
  std::vector<std::uint64_t> load_;  // number of paths, by link
  std::vector<PathDiversity> diversity_;
  std::vector<std::uint32_t> distance_;
  std::vector<std::uint32_t> queue_;
  std::vector<Candidate> candidates_;
  std::vector<std::uint32_t> first_candidate_;  // by position in the queue
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
