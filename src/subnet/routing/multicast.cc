#include "subnet/routing/multicast.h"

#include <algorithm>

namespace weft::subnet {

std::vector<std::uint32_t> tree_roots(const RoutingGraph& graph) {
  std::uint32_t top = 0;
  for (const std::uint32_t level : graph.level) {
    top = level == kUnreachable ? top : std::max(top, level);
  }
  std::vector<std::uint32_t> roots;
  for (std::uint32_t i = 0; i < graph.size(); ++i) {
    if (graph.level[i] == top) {
      roots.push_back(i);
    }
  }
  return roots;
}

SpanningTree grow_tree(const RoutingGraph& graph, std::uint32_t root) {
  SpanningTree tree;
  tree.to_parent.assign(graph.size(), kUnreachable);
  std::vector<bool> is_in(graph.size());
  for (std::uint32_t i = 0; i <= graph.size(); ++i) {
    const std::uint32_t start = i == 0 ? root : i - 1;
    if (start >= graph.size() || is_in[start]) {
      continue;
    }
    is_in[start] = true;
    tree.order.push_back(start);
    for (std::size_t next = tree.order.size() - 1; next < tree.order.size(); ++next) {
      for (const RoutingLink& link : graph.links_of(tree.order[next])) {
        if (!is_in[link.to]) {
          is_in[link.to] = true;
          tree.to_parent[link.to] = link.reverse;
          tree.order.push_back(link.to);
        }
      }
    }
  }
  return tree;
}

std::vector<PortMask> multicast_masks(const RoutingGraph& graph, const SpanningTree& tree,
                                      std::span<const TreeMember> members) {
  struct Count {
    std::uint32_t members{};
    std::uint32_t receivers{};
  };
  std::vector<PortMask> masks(graph.size());
  std::vector<Count> below(graph.size());
  for (const TreeMember& member : members) {
    ++below[member.at].members;
    if (member.receives) {
      ++below[member.at].receivers;
      masks[member.at].set(member.port.value());
    }
  }
  const auto parent_of = [&](std::uint32_t position) {
    return graph.links[tree.to_parent[position]].to;
  };
  for (auto at = tree.order.rbegin(); at != tree.order.rend(); ++at) {
    if (tree.to_parent[*at] != kUnreachable) {
      below[parent_of(*at)].members += below[*at].members;
      below[parent_of(*at)].receivers += below[*at].receivers;
    }
  }
  std::vector<Count> whole(graph.size());  // totals of the tree that contains the switch
  for (const std::uint32_t position : tree.order) {
    if (tree.to_parent[position] == kUnreachable) {
      whole[position] = below[position];
      continue;
    }
    const RoutingLink& up = graph.links[tree.to_parent[position]];
    whole[position] = whole[up.to];
    if (below[position].receivers != 0 && whole[position].members > below[position].members) {
      masks[up.to].set(graph.links[up.reverse].port.value());
    }
    if (below[position].members != 0 && whole[position].receivers > below[position].receivers) {
      masks[position].set(up.port.value());
    }
  }
  return masks;
}

}  // namespace weft::subnet
