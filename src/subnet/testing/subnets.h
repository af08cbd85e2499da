#pragma once

// For tests of routing: subnets with LIDs assigned, as the manager models them.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "subnet/subnet.h"

namespace weft::subnet::testing {

/// Adds nodes and cables; ports are cabled in the order in which they are used.
class SubnetBuilder {
 public:
  Subnet subnet;

  NodeId add_switch(std::uint8_t ports) { return add(wire::NodeType::Switch, ports); }
  NodeId add_host() { return add(wire::NodeType::ChannelAdapter, 1); }

  void join(NodeId a, NodeId b) { join({a, take_port(a)}, {b, take_port(b)}); }
  void join(PortId a, PortId b) {
    subnet.connect(a, b);
    set_up(a, true);
    set_up(b, true);
  }
  void add_hosts(NodeId at, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      join(add_host(), at);
    }
  }

  /// LIDs for all hosts, then all switches, in their order.
  Subnet finish(std::uint8_t lmc = 0) {
    std::uint32_t next = 1U << lmc;
    for (const bool for_switches : {false, true}) {
      for (std::uint32_t i = 0; i < subnet.nodes().size(); ++i) {
        if (subnet.node(NodeId{i}).is_switch() == for_switches) {
          const std::uint8_t bits = for_switches ? 0 : lmc;
          subnet.set_lids({NodeId{i}, PortNumber{for_switches ? std::uint8_t{0} : std::uint8_t{1}}},
                          Lid{next}, bits);
          next += 1U << bits;
        }
      }
    }
    return std::move(subnet);
  }

 private:
  NodeId add(wire::NodeType type, std::uint8_t ports) {
    wire::NodeInfo info;
    info.node_type = type;
    info.port_count = ports;
    info.node_guid = Guid{++guids_ << 8};
    info.port_guid = type == wire::NodeType::Switch ? info.node_guid : Guid{(guids_ << 8) + 1};
    info.local_port = PortNumber{1};
    const NodeId node = subnet.add_node(info);
    if (type == wire::NodeType::Switch) {
      subnet.node(node).switch_info.emplace();
      set_up({node, PortNumber{0}}, true);
    }
    used_.push_back(0);
    return node;
  }

  PortNumber take_port(NodeId node) { return PortNumber{++used_[node.value()]}; }
  void set_up(PortId port, bool up) {
    subnet.port(port).info.port_state = up ? wire::LinkState::Active : wire::LinkState::Down;
  }

  std::vector<std::uint8_t> used_;
  std::uint64_t guids_{};
};

inline Subnet pair() {
  SubnetBuilder builder;
  const NodeId a = builder.add_host();
  builder.join(a, builder.add_host());
  return builder.finish();
}

/// `radix` ports up and as many down: radix hosts a leaf; two levels have radix^2 hosts, three
/// radix^3. The number of cables a pair of switches of two levels is joined by may be more than 1.
inline Subnet fat_tree(std::uint32_t radix, std::uint32_t levels, std::uint32_t parallel = 1,
                       std::uint8_t lmc = 0) {
  SubnetBuilder builder;
  const auto ports = static_cast<std::uint8_t>(2 * radix);
  const std::uint32_t pods = levels == 3 ? radix : 1;
  std::vector<NodeId> top;
  for (std::uint32_t i = 0; levels == 3 && i < radix * radix; ++i) {
    top.push_back(builder.add_switch(ports));
  }
  for (std::uint32_t pod = 0; pod < pods; ++pod) {
    std::vector<NodeId> middle;
    for (std::uint32_t i = 0; i < radix / parallel; ++i) {
      middle.push_back(builder.add_switch(ports));
    }
    for (std::uint32_t leaf = 0; leaf < radix; ++leaf) {
      const NodeId at = builder.add_switch(ports);
      builder.add_hosts(at, radix);
      for (std::uint32_t i = 0; i < radix; ++i) {
        builder.join(at, middle[i % middle.size()]);
      }
    }
    for (std::uint32_t i = 0; levels == 3 && i < radix * radix; ++i) {
      builder.join(middle[i / radix], top[i]);
    }
  }
  return builder.finish(lmc);
}

inline Subnet torus(const std::vector<std::uint32_t>& sizes, std::uint32_t hosts,
                    std::uint8_t lmc = 0) {
  SubnetBuilder builder;
  std::uint32_t count = 1;
  for (const std::uint32_t size : sizes) {
    count *= size;
  }
  std::vector<NodeId> switches;
  for (std::uint32_t i = 0; i < count; ++i) {
    switches.push_back(builder.add_switch(static_cast<std::uint8_t>(hosts + 2 * sizes.size())));
    builder.add_hosts(switches.back(), hosts);
  }
  std::uint32_t stride = 1;
  for (const std::uint32_t size : sizes) {
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t digit = i / stride % size;
      if (size > 2 || digit == 0) {
        builder.join(switches[i], switches[i - digit * stride + (digit + 1) % size * stride]);
      }
    }
    stride *= size;
  }
  return builder.finish(lmc);
}

/// Groups of `a` switches with `p` hosts each, fully joined; a pair of groups has one cable.
inline Subnet dragonfly(std::uint32_t a, std::uint32_t p, std::uint32_t h) {
  SubnetBuilder builder;
  const std::uint32_t groups = a * h + 1;
  std::vector<NodeId> switches;
  for (std::uint32_t i = 0; i < groups * a; ++i) {
    switches.push_back(builder.add_switch(static_cast<std::uint8_t>(p + a - 1 + h)));
    builder.add_hosts(switches.back(), p);
  }
  for (std::uint32_t group = 0; group < groups; ++group) {
    for (std::uint32_t i = 0; i < a; ++i) {
      for (std::uint32_t k = i + 1; k < a; ++k) {
        builder.join(switches[group * a + i], switches[group * a + k]);
      }
    }
    for (std::uint32_t other = group + 1; other < groups; ++other) {
      builder.join(switches[group * a + (other - 1) / h], switches[other * a + group / h]);
    }
  }
  return builder.finish();
}

/// Connected, with `extra` cables more than a tree needs; some switches have no hosts.
inline Subnet random_graph(std::uint32_t switches, std::uint32_t extra, std::uint64_t seed) {
  Random random{seed};
  SubnetBuilder builder;
  std::vector<NodeId> nodes;
  for (std::uint32_t i = 0; i < switches; ++i) {
    nodes.push_back(builder.add_switch(200));
    builder.add_hosts(nodes.back(), static_cast<std::uint32_t>(random.below(3)));
    if (i != 0) {
      builder.join(nodes[i], nodes[random.below(i)]);
    }
  }
  builder.add_hosts(nodes[0], 1);
  for (std::uint32_t i = 0; i < extra; ++i) {
    const std::uint64_t a = random.below(switches);
    const std::uint64_t b = random.below(switches);
    if (a != b) {
      builder.join(nodes[a], nodes[b]);
    }
  }
  return builder.finish();
}

/// Takes down cables between switches, each with the same probability.
inline void cut_links(Subnet& subnet, std::uint64_t one_of, std::uint64_t seed) {
  Random random{seed};
  for (SubnetNode& node : subnet.nodes()) {
    for (SubnetPort& port : node.ports) {
      if (node.is_switch() && port.peer.node != kNoNode &&
          subnet.node(port.peer.node).is_switch() && random.chance(1, one_of)) {
        port.info.port_state = wire::LinkState::Down;
        subnet.port(port.peer).info.port_state = wire::LinkState::Down;
      }
    }
  }
}

}  // namespace weft::subnet::testing
