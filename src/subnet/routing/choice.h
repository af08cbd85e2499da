#pragma once

// Selection among equally good links, shared by the routing engines.

#include <algorithm>
#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include "subnet/routing/graph.h"
#include "subnet/routing/routing.h"

namespace weft::subnet {

/// Forwarding tables that contain only each switch's own LID and those of its directly attached
/// hosts.
[[nodiscard]] Routing start_routing(const RoutingGraph& graph, RoutingEngine engine);

/// Tracks the links chosen for the LIDs of one port, so that each additional LID (LMC, IBTA vol 1
/// §3.5.10) takes a different path where possible.
class PathDiversity {
 public:
  /// Call before each destination. Returns false for the first LID of a port, which has no earlier
  /// path to avoid.
  bool begin(const RoutingDestination& destination) {
    if (destination.path_bits == 0) {
      taken_.clear();
    }
    return !taken_.empty();
  }
  void take(const RoutingLink& link) { taken_.push_back({link.to, link.port}); }
  /// Overlap of a link with the paths chosen so far; sharing the next switch weighs more than
  /// sharing the cable.
  [[nodiscard]] std::uint32_t shared(const RoutingLink& link) const {
    std::uint32_t sum = 0;
    for (const Taken& each : taken_) {
      sum += each.to == link.to ? (each.port == link.port ? 0x1'0001U : 0x1'0000U) : 0U;
    }
    return sum;
  }

 private:
  struct Taken {
    std::uint32_t to;
    PortNumber port;
  };
  std::vector<Taken> taken_;
};

/// Chooses, among candidate links of one switch (indices into graph.links), the one that carries
/// the fewest LIDs.
class LeastLoaded {
 public:
  explicit LeastLoaded(const RoutingGraph& graph) : graph_(graph), load_(graph.links.size()) {}

  [[nodiscard]] std::uint32_t choose(std::span<const std::uint32_t> candidates,
                                     const RoutingDestination& destination) {
    const bool differs = diversity_.begin(destination);
    std::uint32_t best = candidates.front();
    if (differs) {
      best = *std::ranges::min_element(candidates, {}, [&](std::uint32_t link) {
        return std::tuple{diversity_.shared(graph_.links[link]), load_[link], link};
      });
    } else {
      std::uint32_t least = load_[best];
      for (const std::uint32_t link : candidates) {
        const std::uint32_t load = load_[link];
        best = load < least ? link : best;
        least = std::min(load, least);
      }
    }
    diversity_.take(graph_.links[best]);
    ++load_[best];
    return best;
  }

 private:
  const RoutingGraph& graph_;
  std::vector<std::uint32_t> load_;  // number of LIDs routed over each link
  PathDiversity diversity_;
};

/// Sets the forwarding entries of switch `from` for all destinations of one switch, by `chooser`.
template <class Chooser>
void choose_links(const RoutingGraph& graph, std::span<const std::uint32_t> candidates,
                  std::uint32_t from, std::uint32_t destination_switch, Chooser& chooser,
                  Routing& routing) {
  std::vector<PortNumber>& row = routing.forwarding[from];
  for (const RoutingDestination& destination : graph.destinations_at(destination_switch)) {
    row[destination.lid.value()] = graph.links[chooser.choose(candidates, destination)].port;
  }
}

}  // namespace weft::subnet
