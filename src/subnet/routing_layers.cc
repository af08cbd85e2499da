#include "subnet/routing_layers.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <optional>
#include <span>

namespace weft::subnet {
namespace {

/// The paths to one LID, which are a tree with its root where the LID is.
struct DestinationTree {
  std::uint32_t root{};
  std::vector<std::uint32_t> next;   // by position: the link that is taken; kFar at the root
  std::vector<std::uint32_t> order;  // positions that reach it, each behind its next
};

/// The dependencies between links that the paths of one layer make: who holds the buffer at the end
/// of `first` waits for room behind `second`.
class Layers {
 public:
  Layers(const RoutingGraph& graph, Routing& routing) : graph_(graph), routing_(routing) {
    first_dependency_.push_back(0);
    for (const RoutingLink& link : graph.links) {
      first_dependency_.push_back(first_dependency_.back() +
                                  static_cast<std::uint32_t>(graph.links_of(link.to).size()));
    }
    link_of_port_.assign(std::size_t{graph.size()} * kPorts, kFar);
    for (std::uint32_t i = 0; i < graph.links.size(); ++i) {
      link_of_port_[graph.links[i].from * kPorts + graph.links[i].port.value()] = i;
    }
    sum_.assign(graph.size(), 0);
  }

  Result<void> assign(std::uint8_t vls) {
    routing_.sl.assign(graph_.size(), std::vector<std::uint8_t>(graph_.lid_end, 0));
    for (std::uint8_t layer = 0;; ++layer) {
      count_paths(layer);
      if (!spills(layer)) {
        routing_.vl_count = static_cast<std::uint8_t>(layer + 1);
        return {};
      }
      if (layer + 1 == vls) {
        return fail(ErrorCode::NotSupported,
                    "without deadlocks these shortest paths need more than the {} data VLs that "
                    "every port has; up/down needs one",
                    vls);
      }
    }
  }

 private:
  static constexpr std::size_t kPorts = 256;

  [[nodiscard]] bool counts(std::uint32_t source, const RoutingDestination& destination) const {
    return graph_.host_ports[source] != 0 || destination.is_host;
  }

  [[nodiscard]] std::uint32_t link_at(std::uint32_t position, Lid lid) const {
    return link_of_port_[position * kPorts + routing_.forwarding[position][lid.value()].value()];
  }

  void grow_tree(const RoutingDestination& destination) {
    tree_.root = destination.at;
    tree_.next.resize(graph_.size());
    depth_.assign(graph_.size(), kFar);
    depth_[tree_.root] = 0;
    for (std::uint32_t i = 0; i < graph_.size(); ++i) {
      tree_.next[i] = i == tree_.root ? kFar : link_at(i, destination.lid);
    }
    for (std::uint32_t start = 0; start < graph_.size(); ++start) {
      way_.clear();
      std::uint32_t at = start;
      for (; depth_[at] == kFar && tree_.next[at] != kFar; at = graph_.links[tree_.next[at]].to) {
        way_.push_back(at);
      }
      for (std::uint32_t depth = depth_[at]; depth != kFar && !way_.empty(); way_.pop_back()) {
        depth_[way_.back()] = ++depth;
      }
    }
    sort_by_depth();
  }

  void sort_by_depth() {
    at_depth_.assign(graph_.size() + 1, 0);
    std::uint32_t reached = 0;
    for (const std::uint32_t depth : depth_) {
      if (depth != kFar) {
        ++at_depth_[depth + 1];
        ++reached;
      }
    }
    std::partial_sum(at_depth_.begin(), at_depth_.end(), at_depth_.begin());
    tree_.order.resize(reached);
    for (std::uint32_t i = 0; i < graph_.size(); ++i) {
      if (depth_[i] != kFar) {
        tree_.order[at_depth_[depth_[i]]++] = i;
      }
    }
  }

  [[nodiscard]] std::uint32_t dependency(std::uint32_t first, std::uint32_t second) const {
    return first_dependency_[first] + second - graph_.first_link[graph_.links[first].to];
  }

  /// Adds to (or takes from) the counts the paths of the tree that start where `sum_` is 1.
  void add_paths(bool taken_away) {
    for (std::size_t i = tree_.order.size(); i-- > 1;) {
      const std::uint32_t position = tree_.order[i];
      const std::uint32_t first = tree_.next[position];
      const std::uint32_t via = graph_.links[first].to;
      if (via != tree_.root && sum_[position] != 0) {
        std::uint32_t& count = count_[dependency(first, tree_.next[via])];
        count += taken_away ? 0 - sum_[position] : sum_[position];
      }
      sum_[via] += sum_[position];
      sum_[position] = 0;
    }
    sum_[tree_.root] = 0;
  }

  void count_paths(std::uint8_t layer) {
    count_.assign(first_dependency_.back(), 0);
    for (const RoutingDestination& destination : graph_.destinations) {
      grow_tree(destination);
      for (const std::uint32_t source : tree_.order) {
        const bool is_in =
            counts(source, destination) && routing_.sl[source][destination.lid.value()] == layer;
        sum_[source] = is_in ? 1 : 0;
      }
      add_paths(false);
    }
  }

  /// Moves paths to the next layer until this one has no cycle. Whether it moved any.
  bool spills(std::uint8_t layer) {
    state_.assign(graph_.links.size(), State::New);
    bool moved = false;
    for (std::uint32_t start = 0; start < graph_.links.size(); ++start) {
      while (const auto weakest = find_cycle(start)) {
        move_paths(weakest->first, weakest->second, layer);
        moved = true;
      }
    }
    return moved;
  }

  struct Dependency {
    std::uint32_t first;
    std::uint32_t second;
  };

  struct Visit {
    std::uint32_t link;
    std::uint32_t next;  // of the links behind it
  };

  /// Depth first from a link. Of a cycle, the dependency that fewest paths make; what was on the
  /// way is new again. Links that were left behind are in no cycle, now or later.
  std::optional<Dependency> find_cycle(std::uint32_t start) {
    if (state_[start] != State::New) {
      return std::nullopt;
    }
    stack_.assign(1, {start, 0});
    state_[start] = State::OnTheWay;
    while (!stack_.empty()) {
      Visit& visit = stack_.back();
      const std::uint32_t via = graph_.links[visit.link].to;
      if (visit.next == graph_.links_of(via).size()) {
        state_[visit.link] = State::Done;
        stack_.pop_back();
        continue;
      }
      const std::uint32_t second = graph_.first_link[via] + visit.next++;
      if (count_[dependency(visit.link, second)] == 0 || state_[second] == State::Done) {
        continue;
      }
      if (state_[second] == State::OnTheWay) {
        const Dependency weakest = weakest_since(second);
        for (const Visit& each : stack_) {
          state_[each.link] = State::New;
        }
        return weakest;
      }
      state_[second] = State::OnTheWay;
      stack_.push_back({second, 0});
    }
    return std::nullopt;
  }

  [[nodiscard]] Dependency weakest_since(std::uint32_t link) const {
    Dependency weakest{stack_.back().link, link};
    for (std::size_t i = stack_.size() - 1; stack_[i].link != link; --i) {
      const Dependency each{stack_[i - 1].link, stack_[i].link};
      if (count_[dependency(each.first, each.second)] <
          count_[dependency(weakest.first, weakest.second)]) {
        weakest = each;
      }
    }
    return weakest;
  }

  void move_paths(std::uint32_t first, std::uint32_t second, std::uint8_t layer) {
    const std::uint32_t from = graph_.links[first].from;
    const std::uint32_t via = graph_.links[first].to;
    std::vector<bool> passes;
    for (const RoutingDestination& destination : graph_.destinations) {
      if (link_at(from, destination.lid) != first || link_at(via, destination.lid) != second ||
          destination.at == via || destination.at == from) {
        continue;
      }
      grow_tree(destination);
      passes.assign(graph_.size(), false);
      for (const std::uint32_t source : tree_.order) {
        passes[source] = source == from || (tree_.next[source] != kFar &&
                                            passes[graph_.links[tree_.next[source]].to]);
        std::uint8_t& sl = routing_.sl[source][destination.lid.value()];
        const bool moves = passes[source] && sl == layer && counts(source, destination);
        sum_[source] = moves ? 1 : 0;
        sl = moves ? static_cast<std::uint8_t>(layer + 1) : sl;
      }
      add_paths(true);
    }
    assert(count_[dependency(first, second)] == 0);
  }

  enum class State : std::uint8_t { New, OnTheWay, Done };

  const RoutingGraph& graph_;
  Routing& routing_;
  std::vector<std::uint32_t> first_dependency_;  // by link, and one more
  std::vector<std::uint32_t> link_of_port_;      // by position and port
  std::vector<std::uint32_t> count_;             // paths, by dependency
  std::vector<std::uint32_t> sum_;               // by position; all 0 between calls
  std::vector<State> state_;                     // by link
  std::vector<Visit> stack_;
  std::vector<std::uint32_t> depth_;     // by position: hops to the root of the tree
  std::vector<std::uint32_t> at_depth_;  // positions that are less deep
  std::vector<std::uint32_t> way_;
  DestinationTree tree_;
};

}  // namespace

Result<void> assign_layers(const RoutingGraph& graph, std::uint8_t vls, Routing& routing) {
  return Layers{graph, routing}.assign(vls);
}

}  // namespace weft::subnet
