#include "station/multicast_route.h"

#include <algorithm>

#include "fabric/virtual_ports.h"

namespace weft::station {

void MulticastRoute::find_copies(const fabric::TablesView& view,
                                 std::span<const ProcessAddress> members, std::uint32_t own_node) {
  copies.clear();
  std::map<std::uint32_t, std::vector<std::uint32_t>> nodes;  // and the edges to their ports
  for (const fabric::PortIndex member : tree.members) {
    const auto edge = std::ranges::find(tree.edges, member, &fabric::Hop::ingress);
    if (edge == tree.edges.end()) {
      continue;
    }
    const auto number = static_cast<std::uint32_t>(edge - tree.edges.begin());
    nodes[view.port(member).node.value()].push_back(number);
    for (const fabric::PortIndex function : fabric::functions_of(view, member)) {
      nodes[view.port(function).node.value()].push_back(number);
    }
  }
  // No edge leads to who is behind the sender's own port.
  if (tree.outcome == fabric::PathUse::Delivered) {
    nodes[view.port(tree.source).node.value()].clear();
    for (const fabric::PortIndex function : fabric::functions_of(view, tree.source)) {
      nodes[view.port(function).node.value()].clear();
    }
  }
  nodes[own_node].clear();
  for (const ProcessAddress& member : members) {
    if (const auto node = nodes.find(member.node); node != nodes.end()) {
      copies.push_back({.member = member, .edges = node->second});
    }
  }
}

MulticastRoute::Shape MulticastRoute::shape() const {
  Shape shape;
  for (const fabric::EdgeCrossing& crossing : crossings) {
    shape.push_back(crossing.is_crossed());
    shape.push_back(crossing.lost != 0);
  }
  return shape;
}

fabric::MulticastTree MulticastRoute::crossed_part() const {
  fabric::MulticastTree part = tree;
  part.edges.clear();
  for (std::size_t i = 0; i < crossings.size(); ++i) {
    if (crossings[i].is_crossed()) {
      part.edges.push_back(tree.edges[i]);
    } else if (crossings[i].lost != 0) {
      part.dropped_at.push_back(tree.edges[i].egress);
    }
  }
  return part;
}

fabric::Path MulticastRoute::path_to(std::uint32_t edge) const {
  fabric::Path path;
  path.outcome = fabric::PathUse::Delivered;
  path.end = fabric::PathEnd::Delivered;
  path.source = tree.source;
  path.destination = tree.edges[edge].ingress;
  for (std::uint32_t at = edge; at != fabric::kNoIndex; at = tree.timed[at].parent) {
    path.hops.insert(path.hops.begin(), tree.edges[at]);
  }
  return path;
}

std::vector<fabric::Hop> MulticastRoute::captured_hops() const {
  std::vector<fabric::Hop> captured;
  for (std::size_t i = 0; i < crossings.size(); ++i) {
    if (crossings[i].is_crossed() || crossings[i].lost != 0) {
      captured.push_back(tree.edges[i]);
      if (crossings[i].arrived == 0) {
        captured.back().ingress = fabric::kNoPort;
      }
    }
  }
  return captured;
}

std::optional<CopyDelivery> MulticastRoute::delivery_of(const MulticastCopy& copy) const {
  CopyDelivery delivery;
  if (!takes_time() || copy.edges.empty()) {
    return delivery;
  }
  for (const std::uint32_t edge : copy.edges) {
    const bool is_lost = has_faults() && crossings[edge].arrived == 0;
    const bool is_first =
        delivery.transit == nullptr || ends[edge].arrives < delivery.transit->arrives;
    if (is_lost || !is_first) {
      continue;
    }
    delivery.transit = &ends[edge];
    if (has_faults()) {
      delivery.copies = crossings[edge].arrived;
      delivery.held_back = crossings[edge].held_back;
    }
  }
  return delivery.transit != nullptr ? std::optional{delivery} : std::nullopt;
}

}  // namespace weft::station
