#include <algorithm>
#include <numeric>
#include <tuple>

#include "subnet/routing/choice.h"
#include "subnet/routing/ranked.h"
#include "subnet/routing/routing.h"

namespace weft::subnet {
namespace {

/// A graph viewed as a multi-rooted tree: levels, order of leaves, and digits of hosts.
class FatTree {
 public:
  explicit FatTree(const RoutingGraph& graph) : graph_(graph) {
    for (std::uint32_t i = 0; i < graph.size(); ++i) {
      top_ = std::max(top_, graph.level[i]);
    }
    count_ports_up();
    order_hosts();
    for (const std::uint64_t width : width_) {
      std::vector<std::uint32_t>& digits = digits_.emplace_back();
      for (const RoutingDestination& destination : graph.destinations) {
        digits.push_back(static_cast<std::uint32_t>(number_of(destination) / width));
      }
    }
  }

  /// Ranks for RankedPaths; 0 is the top level.
  [[nodiscard]] std::vector<std::uint32_t> ranks() const {
    std::vector<std::uint32_t> ranks(graph_.size());
    for (std::uint32_t i = 0; i < graph_.size(); ++i) {
      ranks[i] = top_ - graph_.level[i];
    }
    return ranks;
  }

  [[nodiscard]] std::uint32_t choose(std::span<const std::uint32_t> candidates,
                                     const RoutingDestination& destination) const {
    const auto which = static_cast<std::size_t>(&destination - graph_.destinations.data());
    const RoutingLink& first = graph_.links[candidates.front()];
    const std::uint32_t level = graph_.level[first.from];
    if (graph_.level[first.to] > level) {
      return candidates[digits_[level][which] % candidates.size()];
    }
    if (candidates.size() == 1) {
      return candidates.front();
    }
    // Downwards, use the cable that the lower switch would use upwards for the same number, so that
    // flows separated on the way up stay separated.
    const std::uint32_t digits = digits_[graph_.level[first.to]][which];
    for (const std::uint32_t link : candidates) {
      const std::uint32_t ports = ports_up_[graph_.links[link].to];
      if (order_up_[graph_.links[link].reverse] == digits % ports) {
        return link;
      }
    }
    return candidates[digits % candidates.size()];
  }

 private:
  void count_ports_up() {
    ports_up_.assign(graph_.size(), 0);
    order_up_.assign(graph_.links.size(), 0);
    width_.assign(std::size_t{top_} + 1, 1);
    std::vector<std::uint32_t> most(std::size_t{top_} + 1, 1);
    for (std::uint32_t i = 0; i < graph_.links.size(); ++i) {
      const RoutingLink& link = graph_.links[i];
      if (graph_.level[link.to] > graph_.level[link.from]) {
        order_up_[i] = ports_up_[link.from]++;
      }
    }
    for (std::uint32_t i = 0; i < graph_.size(); ++i) {
      most[graph_.level[i]] = std::max(most[graph_.level[i]], ports_up_[i]);
    }
    for (std::size_t level = 1; level < width_.size(); ++level) {
      width_[level] = width_[level - 1] * most[level - 1];
    }
  }

  /// Identifies the subtree of each leaf that remains when links above `height` are removed; by
  /// position.
  [[nodiscard]] std::vector<std::uint32_t> parts_below(std::uint32_t height) const {
    std::vector<std::uint32_t> part(graph_.size(), kUnreachable);
    std::vector<std::uint32_t> queue;
    for (std::uint32_t start = 0; start < graph_.size(); ++start) {
      if (part[start] != kUnreachable || graph_.level[start] > height) {
        continue;
      }
      part[start] = start;
      queue.assign(1, start);
      for (std::size_t next = 0; next < queue.size(); ++next) {
        for (const RoutingLink& link : graph_.links_of(queue[next])) {
          if (graph_.level[link.to] <= height && part[link.to] == kUnreachable) {
            part[link.to] = start;
            queue.push_back(link.to);
          }
        }
      }
    }
    return part;
  }

  /// Numbers hosts by leaf, with the leaves of a subtree next to each other.
  void order_hosts() {
    std::vector<std::uint32_t> leaves;
    std::uint32_t max_hosts = 1;
    for (std::uint32_t i = 0; i < graph_.size(); ++i) {
      if (graph_.host_ports[i] != 0) {
        leaves.push_back(i);
        max_hosts = std::max(max_hosts, graph_.host_ports[i]);
      }
    }
    std::vector<std::vector<std::uint32_t>> part;  // subtrees, from the root downwards
    for (std::uint32_t height = top_; height-- > 1;) {
      part.push_back(parts_below(height));
    }
    std::ranges::sort(leaves, [&](std::uint32_t a, std::uint32_t b) {
      for (const std::vector<std::uint32_t>& each : part) {
        if (each[a] != each[b]) {
          return each[a] < each[b];
        }
      }
      return a < b;
    });
    first_number_.assign(graph_.size(), 0);
    first_ordinal_.assign(graph_.size(), 0);
    for (std::uint32_t i = 0; i < leaves.size(); ++i) {
      first_number_[leaves[i]] = i * max_hosts;
    }
    for (std::uint32_t i = 0, ordinal = 0; i < graph_.size(); ++i) {
      first_ordinal_[i] = ordinal;
      ordinal += graph_.host_ports[i];
    }
  }

  [[nodiscard]] std::uint64_t number_of(const RoutingDestination& destination) const {
    const std::uint32_t number =
        destination.is_host
            ? first_number_[destination.at] + destination.ordinal - first_ordinal_[destination.at]
            : destination.ordinal;
    return std::uint64_t{number} + destination.path_bits;
  }

  const RoutingGraph& graph_;
  std::uint32_t top_{};
  std::vector<std::uint32_t> ports_up_;  // by position
  std::vector<std::uint32_t> order_up_;  // by link: index among the upward links of its switch
  std::vector<std::uint64_t> width_;     // by level: number of hosts that share one upward port
  // by level and destination: remaining digits from that level up
  std::vector<std::vector<std::uint32_t>> digits_;
  std::vector<std::uint32_t> first_number_;   // by position
  std::vector<std::uint32_t> first_ordinal_;  // by position
};

Result<void> check_levels(const RoutingGraph& graph) {
  for (std::uint32_t i = 0; i < graph.size(); ++i) {
    if (graph.level[i] == kUnreachable) {
      return fail(ErrorCode::NotSupported,
                  "not a fat tree: no cables lead from switch {} to one with hosts", i);
    }
  }
  for (const RoutingLink& link : graph.links) {
    if (graph.level[link.from] == graph.level[link.to]) {
      return fail(ErrorCode::NotSupported,
                  "not a fat tree: switches {} and {}, both {} cables from the nearest host, are "
                  "joined; min-hop, up/down or deadlock-free would do",
                  link.from, link.to, graph.level[link.from] + 1);
    }
  }
  return {};
}

/// Switches without hosts may lack an up/down path between them; management packets between these
/// use the shortest path.
void join_switches(const RoutingGraph& graph, std::uint32_t to, Routing& routing) {
  std::vector<std::uint32_t> distance(graph.size(), kUnreachable);
  std::vector<std::uint32_t> queue{to};
  distance[to] = 0;
  measure_distances(graph, distance, queue);
  const auto links_on = [&](std::uint32_t from) {
    return std::ranges::find_if(graph.links_of(from), [&](const RoutingLink& link) {
      return distance[link.to] + 1 == distance[from];
    });
  };
  for (const std::uint32_t from : queue) {
    for (const RoutingDestination& destination : graph.destinations_at(to)) {
      PortNumber& entry = routing.forwarding[from][destination.lid.value()];
      if (entry == wire::kNoForwardingPort) {
        entry = links_on(from)->port;
      }
    }
  }
}

}  // namespace

Result<Routing> route_fat_tree(const RoutingGraph& graph) {
  if (const auto checked = check_levels(graph); !checked) {
    return std::unexpected(checked.error());
  }
  Routing routing = start_routing(graph, RoutingEngine::FatTree);
  const FatTree tree{graph};
  RankedPaths paths{graph, tree.ranks()};
  for (std::uint32_t to = 0; to < graph.size(); ++to) {
    bool misses_some = false;
    bool misses_hosts = false;
    paths.for_destination(to, [&](std::uint32_t from, std::span<const std::uint32_t> candidates) {
      if (!candidates.empty()) {
        return choose_links(graph, candidates, from, to, tree, routing);
      }
      misses_some = true;
      misses_hosts = misses_hosts || graph.host_ports[from] != 0 || graph.host_ports[to] != 0;
    });
    if (misses_hosts) {
      return fail(
          ErrorCode::NotSupported,
          "a fat tree in which packets that go up and then down do not reach switch {} from "
          "everywhere: too many links are down; up/down reaches it",
          to);
    }
    if (misses_some) {
      join_switches(graph, to, routing);
    }
  }
  return routing;
}

}  // namespace weft::subnet
