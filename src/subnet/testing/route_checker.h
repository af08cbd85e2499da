#pragma once

// Verifies forwarding tables by following packets link by link. Shares no code with the routing
// engines: it reads only ports, cables and tables.

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "subnet/subnet.h"

namespace weft::subnet::testing {

class RouteChecker {
 public:
  using Lookup = std::function<PortNumber(NodeId, Lid)>;

  RouteChecker(const Subnet& subnet, Lookup lookup) : subnet_(subnet), lookup_(std::move(lookup)) {}

  /// The ports that a packet leaves switches by; nothing when it is lost or runs in circles.
  [[nodiscard]] std::optional<std::vector<PortId>> walk(PortId source, Lid lid) const {
    std::vector<PortId> egress;
    PortId at = source;
    if (!subnet_.node(source.node).is_switch()) {
      if (subnet_.port(source).owns(lid)) {
        return egress;
      }
      at = across(source);
    }
    for (std::size_t hops = 0; hops <= subnet_.nodes().size(); ++hops) {
      if (at.node == kNoNode) {
        return std::nullopt;
      }
      const SubnetNode& node = subnet_.node(at.node);
      if (!node.is_switch()) {
        return subnet_.port(at).owns(lid) ? std::optional{egress} : std::nullopt;
      }
      const PortNumber port = lookup_(at.node, lid);
      if (port == PortNumber{0}) {
        return node.ports[0].owns(lid) ? std::optional{egress} : std::nullopt;
      }
      if (port.value() >= node.ports.size()) {
        return std::nullopt;
      }
      egress.push_back({at.node, port});
      at = across({at.node, port});
    }
    return std::nullopt;
  }

  /// Which ports have LIDs: HCA ports that are up, and port 0 of switches.
  [[nodiscard]] std::vector<PortId> end_ports() const {
    std::vector<PortId> ports;
    for (std::uint32_t i = 0; i < subnet_.nodes().size(); ++i) {
      for (const SubnetPort& port : subnet_.nodes()[i].ports) {
        if (port.info.lid != Lid{}) {
          ports.push_back({NodeId{i}, port.number});
        }
      }
    }
    return ports;
  }

  /// All nodes connected to a port by cables.
  [[nodiscard]] std::set<NodeId> connected(NodeId start) const {
    std::set<NodeId> seen{start};
    std::deque<NodeId> queue{start};
    while (!queue.empty()) {
      const NodeId node = queue.front();
      queue.pop_front();
      for (const SubnetPort& port : subnet_.node(node).ports) {
        const PortId peer = across({node, port.number});
        if (peer.node != kNoNode && seen.insert(peer.node).second) {
          queue.push_back(peer.node);
        }
      }
    }
    return seen;
  }

  /// Pairs of LIDs that are connected by cables but not by the tables.
  [[nodiscard]] std::vector<std::string> unreachable() const {
    std::vector<std::string> lost;
    const std::vector<PortId> ports = end_ports();
    for (const PortId source : ports) {
      const std::set<NodeId> joined = connected(source.node);
      for (const PortId destination : ports) {
        const SubnetPort& to = subnet_.port(destination);
        for (std::uint32_t bits = 0; joined.contains(destination.node) && bits < to.lid_count();
             ++bits) {
          const Lid lid{to.info.lid.value() + bits};
          if (!walk(source, lid)) {
            lost.push_back(std::to_string(subnet_.port(source).info.lid.value()) + " to " +
                           std::to_string(lid.value()));
          }
        }
      }
    }
    return lost;
  }

  using ServiceLevelOf = std::function<unsigned(PortId source, Lid destination)>;

  /// Whether on some VL links may wait for each other in a circle, over all paths that begin or
  /// end at a host.
  [[nodiscard]] bool may_deadlock(const ServiceLevelOf& sl_of) const {
    std::map<unsigned, Graph> graphs;
    const std::vector<PortId> ports = end_ports();
    for (const PortId source : ports) {
      for (const PortId destination : ports) {
        const SubnetPort& to = subnet_.port(destination);
        if (subnet_.node(source.node).is_switch() && subnet_.node(destination.node).is_switch()) {
          continue;
        }
        for (std::uint32_t bits = 0; bits < to.lid_count(); ++bits) {
          const Lid lid{to.info.lid.value() + bits};
          const auto egress = walk(source, lid);
          for (std::size_t i = 1; egress && i < egress->size(); ++i) {
            graphs[sl_of(source, lid)][(*egress)[i - 1]].insert((*egress)[i]);
          }
        }
      }
    }
    return std::ranges::any_of(graphs, [](const auto& each) { return has_cycle(each.second); });
  }

 private:
  using Graph = std::map<PortId, std::set<PortId>>;

  [[nodiscard]] PortId across(PortId port) const {
    const SubnetPort& record = subnet_.port(port);
    if (record.peer.node == kNoNode || record.info.port_state == wire::LinkState::Down ||
        subnet_.port(record.peer).info.port_state == wire::LinkState::Down) {
      return {};
    }
    return record.peer;
  }

  /// Removes nodes without incoming edges repeatedly; the rest contains a cycle.
  static bool has_cycle(const Graph& graph) {
    std::map<PortId, std::size_t> incoming;
    for (const auto& [from, targets] : graph) {
      incoming.try_emplace(from);
      for (const PortId to : targets) {
        ++incoming[to];
      }
    }
    std::deque<PortId> free;
    for (const auto& [port, count] : incoming) {
      if (count == 0) {
        free.push_back(port);
      }
    }
    std::size_t gone = 0;
    for (; !free.empty(); free.pop_front(), ++gone) {
      const auto found = graph.find(free.front());
      if (found == graph.end()) {
        continue;
      }
      for (const PortId to : found->second) {
        if (--incoming[to] == 0) {
          free.push_back(to);
        }
      }
    }
    return gone != incoming.size();
  }

  const Subnet& subnet_;
  Lookup lookup_;
};

}  // namespace weft::subnet::testing
