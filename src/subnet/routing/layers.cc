#include "subnet/routing/layers.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <span>
#include <utility>

namespace weft::subnet {
namespace {

/// Bitmap of layers.
using LayerMask = std::uint16_t;

/// The channel dependency graph of each layer: a packet that occupies the buffer at the end of link
/// `first` waits for the buffer of link `second`. Each layer keeps its links in topological order;
/// a dependency that cannot be inserted would close a cycle (dynamic topological sort, Pearce and
/// Kelly 2006).
class Dependencies {
 public:
  Dependencies(const RoutingGraph& graph, std::uint8_t layers) : graph_(graph) {
    first_dependency_.push_back(0);
    for (const RoutingLink& link : graph.links) {
      first_dependency_.push_back(first_dependency_.back() +
                                  static_cast<std::uint32_t>(graph.links_of(link.to).size()));
    }
    present_.assign(first_dependency_.back(), 0);
    refused_.assign(first_dependency_.back(), 0);
    place_.assign(layers, tree_positions());
    seen_.assign(graph.links.size(), false);
  }

  [[nodiscard]] std::uint32_t index(std::uint32_t first, std::uint32_t second) const {
    return first_dependency_[first] + second - graph_.first_link[graph_.links[first].to];
  }
  [[nodiscard]] LayerMask present(std::uint32_t dependency) const { return present_[dependency]; }
  [[nodiscard]] LayerMask refused(std::uint32_t dependency) const { return refused_[dependency]; }

  /// Returns false if the dependency would close a cycle. The result is final, since dependencies
  /// are never removed.
  bool add(std::uint32_t first, std::uint32_t second, std::uint8_t layer) {
    const std::uint32_t dependency = index(first, second);
    const auto bit = static_cast<LayerMask>(1U << layer);
    if ((present_[dependency] & bit) != 0) {
      return true;
    }
    if (place_[layer][first] > place_[layer][second] && !make_place(first, second, layer)) {
      refused_[dependency] |= bit;
      return false;
    }
    present_[dependency] |= bit;
    return true;
  }

 private:
  /// Initial order, suited to trees: upward links from the lowest level, then downward links.
  [[nodiscard]] std::vector<std::uint32_t> tree_positions() const {
    std::vector<std::uint32_t> order(graph_.links.size());
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::sort(order, {}, [&](std::uint32_t link) {
      const std::uint64_t from = graph_.level[graph_.links[link].from];
      const std::uint64_t to = graph_.level[graph_.links[link].to];
      return std::pair{to > from ? from : 2 * std::uint64_t{kUnreachable} - from, link};
    });
    std::vector<std::uint32_t> places(order.size());
    for (std::uint32_t i = 0; i < order.size(); ++i) {
      places[order[i]] = i;
    }
    return places;
  }

  /// Reorders the layer so that `first` precedes `second`.
  bool make_place(std::uint32_t first, std::uint32_t second, std::uint8_t layer) {
    std::vector<std::uint32_t>& place = place_[layer];
    const auto bit = static_cast<LayerMask>(1U << layer);
    const std::uint32_t lowest = place[second];
    const std::uint32_t highest = place[first];
    behind_.assign(1, second);
    seen_[second] = true;
    bool closes_cycle = false;
    for (std::size_t i = 0; i < behind_.size() && !closes_cycle; ++i) {
      const std::uint32_t via = graph_.links[behind_[i]].to;
      for (std::uint32_t next = graph_.first_link[via]; next < graph_.first_link[via + 1]; ++next) {
        if ((present_[index(behind_[i], next)] & bit) != 0 && place[next] <= highest &&
            !seen_[next]) {
          closes_cycle = closes_cycle || next == first;
          seen_[next] = true;
          behind_.push_back(next);
        }
      }
    }
    before_.clear();
    if (!closes_cycle) {
      before_.assign(1, first);
      seen_[first] = true;
    }
    for (std::size_t i = 0; i < before_.size(); ++i) {
      for (const RoutingLink& out : graph_.links_of(graph_.links[before_[i]].from)) {
        const std::uint32_t previous = out.reverse;
        if ((present_[index(previous, before_[i])] & bit) != 0 && place[previous] >= lowest &&
            !seen_[previous]) {
          seen_[previous] = true;
          before_.push_back(previous);
        }
      }
    }
    forget();
    if (!closes_cycle) {
      reorder(place);
    }
    return !closes_cycle;
  }

  void forget() {
    for (const std::vector<std::uint32_t>* list : {&behind_, &before_}) {
      for (const std::uint32_t link : *list) {
        seen_[link] = false;
      }
    }
  }

  void reorder(std::vector<std::uint32_t>& place) {
    const auto by_place = [&](std::uint32_t link) { return place[link]; };
    std::ranges::sort(before_, {}, by_place);
    std::ranges::sort(behind_, {}, by_place);
    before_.insert(before_.end(), behind_.begin(), behind_.end());
    free_.clear();
    for (const std::uint32_t link : before_) {
      free_.push_back(place[link]);
    }
    std::ranges::sort(free_);
    for (std::size_t i = 0; i < before_.size(); ++i) {
      place[before_[i]] = free_[i];
    }
  }

  const RoutingGraph& graph_;
  std::vector<std::uint32_t> first_dependency_;    // by link, plus an end entry
  std::vector<LayerMask> present_;                 // by dependency
  std::vector<LayerMask> refused_;                 // by dependency
  std::vector<std::vector<std::uint32_t>> place_;  // by layer and link
  std::vector<bool> seen_;                         // by link; all false between calls
  std::vector<std::uint32_t> behind_;
  std::vector<std::uint32_t> before_;
  std::vector<std::uint32_t> free_;
};

/// Assigns the paths to one LID after another to layers.
class Layers {
 public:
  Layers(const RoutingGraph& graph, std::uint8_t vls, Routing& routing)
      : graph_(graph), vls_(vls), routing_(routing), dependencies_(graph, vls) {
    link_of_port_.assign(std::size_t{graph.size()} * kPorts, kUnreachable);
    for (std::uint32_t i = 0; i < graph.links.size(); ++i) {
      link_of_port_[graph.links[i].from * kPorts + graph.links[i].port.value()] = i;
    }
  }

  Result<void> assign() {
    routing_.sl.assign(graph_.size(), std::vector<std::uint8_t>(graph_.lid_end, 0));
    for (const RoutingDestination& destination : graph_.destinations) {
      if (!assign_paths_to(destination)) {
        return fail(ErrorCode::NotSupported,
                    "without deadlocks these shortest paths need more than the {} data VLs that "
                    "every port has; up/down needs one",
                    vls_);
      }
    }
    return {};
  }

 private:
  static constexpr std::size_t kPorts = 256;

  bool assign_paths_to(const RoutingDestination& destination) {
    sort_by_depth(destination);
    const auto all = static_cast<LayerMask>((1U << vls_) - 1);
    present_.assign(graph_.size(), all);  // layers that already contain the whole path
    refused_.assign(graph_.size(), 0);    // layers in which the path would close a cycle
    for (const std::uint32_t source : order_) {
      const std::uint32_t link = next_[source];
      if (link == kUnreachable) {
        continue;
      }
      const std::uint32_t via = graph_.links[link].to;
      if (next_[via] != kUnreachable) {
        const std::uint32_t dependency = dependencies_.index(link, next_[via]);
        present_[source] = present_[via] & dependencies_.present(dependency);
        refused_[source] = refused_[via] | dependencies_.refused(dependency);
      }
      if (graph_.host_ports[source] == 0 && !destination.is_host) {
        continue;
      }
      const int layer =
          present_[source] != 0 ? std::countr_zero(present_[source]) : first_that_takes(source);
      if (layer < 0) {
        return false;
      }
      routing_.sl[source][destination.lid.value()] = static_cast<std::uint8_t>(layer);
      routing_.vl_count = std::max(routing_.vl_count, static_cast<std::uint8_t>(layer + 1));
    }
    return true;
  }

  int first_that_takes(std::uint32_t source) {
    for (std::uint8_t layer = 0; layer < vls_; ++layer) {
      if ((refused_[source] >> layer & 1) == 0 && takes(source, layer)) {
        return layer;
      }
    }
    return -1;
  }

  /// Adds dependencies from the far end, so that those added before a failure also belong to other
  /// paths.
  bool takes(std::uint32_t source, std::uint8_t layer) {
    route_.clear();
    for (std::uint32_t link = next_[source]; link != kUnreachable;
         link = next_[graph_.links[link].to]) {
      route_.push_back(link);
    }
    for (std::size_t i = route_.size(); i-- > 1;) {
      if (!dependencies_.add(route_[i - 1], route_[i], layer)) {
        return false;
      }
    }
    return true;
  }

  /// All switches that reach the destination, in order of distance.
  void sort_by_depth(const RoutingDestination& destination) {
    next_.resize(graph_.size());
    depth_.assign(graph_.size(), kUnreachable);
    depth_[destination.at] = 0;
    for (std::uint32_t i = 0; i < graph_.size(); ++i) {
      const PortNumber port = routing_.forwarding[i][destination.lid.value()];
      next_[i] = i == destination.at ? kUnreachable : link_of_port_[i * kPorts + port.value()];
    }
    for (std::uint32_t start = 0; start < graph_.size(); ++start) {
      route_.clear();
      std::uint32_t at = start;
      for (; depth_[at] == kUnreachable && next_[at] != kUnreachable;
           at = graph_.links[next_[at]].to) {
        route_.push_back(at);
      }
      for (std::uint32_t depth = depth_[at]; depth != kUnreachable && !route_.empty();
           route_.pop_back()) {
        depth_[route_.back()] = ++depth;
      }
    }
    first_at_depth_.assign(graph_.size() + 2, 0);
    std::uint32_t reached = 0;
    for (const std::uint32_t depth : depth_) {
      if (depth != kUnreachable) {
        ++first_at_depth_[depth + 1];
        ++reached;
      }
    }
    std::partial_sum(first_at_depth_.begin(), first_at_depth_.end(), first_at_depth_.begin());
    order_.resize(reached);
    for (std::uint32_t i = 0; i < graph_.size(); ++i) {
      if (depth_[i] != kUnreachable) {
        order_[first_at_depth_[depth_[i]]++] = i;
      }
    }
  }

  const RoutingGraph& graph_;
  std::uint8_t vls_;
  Routing& routing_;
  Dependencies dependencies_;
  std::vector<std::uint32_t> link_of_port_;  // by position and port
  std::vector<std::uint32_t> next_;          // by position: next link
  std::vector<std::uint32_t> depth_;         // by position
  std::vector<std::uint32_t> first_at_depth_;
  std::vector<std::uint32_t> order_;
  std::vector<std::uint32_t> route_;
  std::vector<LayerMask> present_;  // by position
  std::vector<LayerMask> refused_;  // by position
};

}  // namespace

Result<void> assign_layers(const RoutingGraph& graph, std::uint8_t vls, Routing& routing) {
  return Layers{graph, vls, routing}.assign();
}

}  // namespace weft::subnet
