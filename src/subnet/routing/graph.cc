#include "subnet/routing/graph.h"

#include <algorithm>
#include <tuple>

namespace weft::subnet {
namespace {

/// The port at the other end of a link that is up; kNoNode if there is none.
PortId live_peer(const Subnet& subnet, const SubnetPort& port) {
  if (!port.is_up() || !subnet.contains(port.peer.node) || !subnet.port(port.peer).is_up()) {
    return {};
  }
  return port.peer;
}

void add_links(const Subnet& subnet, RoutingGraph& graph) {
  graph.first_link.push_back(0);
  for (std::uint32_t position = 0; position < graph.size(); ++position) {
    for (const SubnetPort& port : subnet.node(graph.switches[position]).ports) {
      const PortId peer = live_peer(subnet, port);
      if (port.number == PortNumber{} || peer.node == kNoNode ||
          peer.node == graph.switches[position]) {
        continue;
      }
      const std::uint32_t to = graph.position_of[peer.node.value()];
      if (to == kUnreachable) {
        ++graph.host_ports[position];
      } else {
        graph.links.push_back({.from = position, .to = to, .port = port.number});
      }
    }
    const auto begin = graph.links.begin() + graph.first_link.back();
    std::sort(begin, graph.links.end(), [](const RoutingLink& a, const RoutingLink& b) {
      return std::tuple{a.to, a.port} < std::tuple{b.to, b.port};
    });
    graph.first_link.push_back(static_cast<std::uint32_t>(graph.links.size()));
  }
  for (RoutingLink& link : graph.links) {
    const PortNumber peer_port = subnet.port({graph.switches[link.from], link.port}).peer.number;
    for (std::uint32_t i = graph.first_link[link.to]; i < graph.first_link[link.to + 1]; ++i) {
      if (graph.links[i].port == peer_port) {
        link.reverse = i;
      }
    }
  }
}

void add_destination(RoutingGraph& graph, const SubnetPort& owner, RoutingDestination destination) {
  for (std::uint32_t bits = 0; owner.info.lid != Lid{} && bits < owner.lid_count(); ++bits) {
    destination.lid = Lid{owner.info.lid.value() + bits};
    destination.path_bits = static_cast<std::uint8_t>(bits);
    graph.destinations.push_back(destination);
  }
}

void add_destinations(const Subnet& subnet, RoutingGraph& graph) {
  std::uint32_t ordinal = 0;
  graph.first_destination.push_back(0);
  for (std::uint32_t position = 0; position < graph.size(); ++position) {
    const SubnetNode& node = subnet.node(graph.switches[position]);
    add_destination(graph, node.ports[0], {.at = position, .ordinal = position});
    for (const SubnetPort& port : node.ports) {
      const PortId peer = live_peer(subnet, port);
      if (port.number == PortNumber{} || peer.node == kNoNode ||
          graph.position_of[peer.node.value()] != kUnreachable) {
        continue;
      }
      add_destination(graph, subnet.port(peer),
                      {.at = position, .port = port.number, .ordinal = ordinal++, .is_host = true});
    }
    graph.first_destination.push_back(static_cast<std::uint32_t>(graph.destinations.size()));
  }
}

}  // namespace

RoutingGraph make_routing_graph(const Subnet& subnet) {
  RoutingGraph graph;
  graph.position_of.assign(subnet.nodes().size(), kUnreachable);
  for (std::uint32_t i = 0; i < subnet.nodes().size(); ++i) {
    if (subnet.nodes()[i].is_switch()) {
      graph.position_of[i] = graph.size();
      graph.switches.push_back(NodeId{i});
    }
  }
  graph.host_ports.assign(graph.size(), 0);
  graph.lid_end = subnet.highest_lid().value() + 1;
  add_links(subnet, graph);
  add_destinations(subnet, graph);
  graph.level.assign(graph.size(), kUnreachable);
  std::vector<std::uint32_t> queue;
  for (std::uint32_t position = 0; position < graph.size(); ++position) {
    if (graph.host_ports[position] != 0) {
      graph.level[position] = 0;
      queue.push_back(position);
    }
  }
  measure_distances(graph, graph.level, queue);
  return graph;
}

void measure_distances(const RoutingGraph& graph, std::vector<std::uint32_t>& distance,
                       std::vector<std::uint32_t>& queue) {
  for (std::size_t next = 0; next < queue.size(); ++next) {
    const std::uint32_t from = queue[next];
    for (const RoutingLink& link : graph.links_of(from)) {
      if (distance[link.to] == kUnreachable) {
        distance[link.to] = distance[from] + 1;
        queue.push_back(link.to);
      }
    }
  }
}

}  // namespace weft::subnet
