#pragma once

// Up/down paths for any ranking of the switches.

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "subnet/routing/choice.h"
#include "subnet/routing/graph.h"

namespace weft::subnet {

/// Finds the links usable towards one destination switch after another: the shortest path that only
/// goes down if one exists, else up to the nearest switch that has one. A switch that can go down
/// always does, so packets never turn up again and never loop.
class RankedPaths {
 public:
  /// `rank` by position. A link is up if it leads to a lower rank; neighbours have different ranks.
  RankedPaths(const RoutingGraph& graph, std::vector<std::uint32_t> rank)
      : graph_(graph), rank_(std::move(rank)), highest_first_(graph.size()) {
    std::iota(highest_first_.begin(), highest_first_.end(), 0U);
    std::ranges::sort(highest_first_, {}, [&](std::uint32_t i) { return std::pair{rank_[i], i}; });
  }

  /// Calls visit(from, candidates) for each other switch; `candidates` is empty if it has no path.
  template <class Visit>
  void for_destination(std::uint32_t to, Visit&& visit) {
    cost_.assign(graph_.size(), kUnreachable);
    cost_[to] = 0;
    queue_.assign(1, to);
    // switches that reach `to` by going down only
    for (std::size_t next = 0; next < queue_.size(); ++next) {
      const std::uint32_t below = queue_[next];
      for (const RoutingLink& link : graph_.links_of(below)) {
        if (rank_[link.to] < rank_[below] && cost_[link.to] == kUnreachable) {
          cost_[link.to] = cost_[below] + 1;
          queue_.push_back(link.to);
        }
      }
    }
    goes_down_.assign(graph_.size(), false);
    for (const std::uint32_t each : queue_) {
      goes_down_[each] = true;
    }
    for (const std::uint32_t from : highest_first_) {
      if (from != to) {
        find_candidates(from);
        visit(from, candidates_);
      }
    }
  }

 private:
  void find_candidates(std::uint32_t from) {
    const bool down = goes_down_[from];
    const auto leads_on = [&](const RoutingLink& link) {
      return down ? goes_down_[link.to] && rank_[link.to] > rank_[from]
                  : rank_[link.to] < rank_[from] && cost_[link.to] != kUnreachable;
    };
    std::uint32_t least = kUnreachable;
    for (const RoutingLink& link : graph_.links_of(from)) {
      if (leads_on(link)) {
        least = std::min(least, cost_[link.to]);
      }
    }
    candidates_.clear();
    if (least == kUnreachable) {
      return;
    }
    cost_[from] = least + 1;
    for (std::uint32_t i = graph_.first_link[from]; i < graph_.first_link[from + 1]; ++i) {
      if (leads_on(graph_.links[i]) && cost_[graph_.links[i].to] == least) {
        candidates_.push_back(i);
      }
    }
  }

  const RoutingGraph& graph_;
  std::vector<std::uint32_t> rank_;
  std::vector<std::uint32_t> highest_first_;
  std::vector<std::uint32_t> cost_;
  std::vector<bool> goes_down_;
  std::vector<std::uint32_t> queue_;
  std::vector<std::uint32_t> candidates_;
};

}  // namespace weft::subnet
