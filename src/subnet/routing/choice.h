#pragma once

// What engines share: choosing one of several equally good links.

#include <algorithm>
#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include "subnet/routing/graph.h"
#include "subnet/routing/routing.h"

namespace weft::subnet {

/// Tables without an entry but each switch's own LIDs and those of its hosts.
[[nodiscard]] Routing start_routing(const RoutingGraph& graph, RoutingEngine engine);

/// Remembers, for LIDs of one port, which ways the ones before took, so that each of them takes
/// another one where there is any (IBTA vol 1 §3.5.10, LMC).
class PathDiversity {
 public:
  /// Before each destination. False: it is the port's only LID so far, nothing to avoid.
  bool begin(const RoutingDestination& destination) {
    if (destination.path_bits == 0) {
      taken_.clear();
    }
    return !taken_.empty();
  }
  void take(const RoutingLink& link) { taken_.push_back({link.to, link.port}); }
  /// How much is shared with the LIDs before: the next switch counts more than the cable.
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

/// Of the candidates, which are indices of links out of one switch, the one that fewest LIDs go by.
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
  std::vector<std::uint32_t> load_;  // LIDs by link
  PathDiversity diversity_;
};

/// Enters what `chooser` chooses at `from` for each destination of one switch.
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
