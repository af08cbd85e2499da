#include "subnet/routing/multicast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>

#include "subnet/testing/subnets.h"

namespace weft::subnet {
namespace {

/// Copies that each end port gets of one packet, by forwarding it as switches do.
std::map<PortId, unsigned> deliver(const Subnet& subnet, const RoutingGraph& graph,
                                   const std::vector<PortMask>& masks, PortId sender) {
  std::map<PortId, unsigned> copies;
  std::deque<PortId> arriving{subnet.port(sender).peer};
  for (std::size_t steps = 0; !arriving.empty() && steps < 10'000; ++steps) {
    const PortId in = arriving.front();
    arriving.pop_front();
    const SubnetNode& node = subnet.node(in.node);
    if (!node.is_switch()) {
      ++copies[in];
      continue;
    }
    const PortMask& mask = masks[graph.position_of[in.node.value()]];
    for (const SubnetPort& port : node.ports) {
      if (!mask.test(port.number.value()) || port.number == in.number) {
        continue;
      }
      if (port.number == PortNumber{}) {
        ++copies[{in.node, PortNumber{}}];
      } else {
        arriving.push_back(port.peer);
      }
    }
  }
  return copies;
}

struct Group {
  std::vector<PortId> ports;
  std::vector<TreeMember> members;
};

Group every_nth_host(const Subnet& subnet, const RoutingGraph& graph, std::size_t n) {
  Group group;
  std::size_t count = 0;
  for (std::uint32_t i = 0; i < subnet.nodes().size(); ++i) {
    const PortId port{NodeId{i}, PortNumber{1}};
    if (!subnet.node(port.node).is_switch() && count++ % n == 0) {
      const PortId peer = subnet.port(port).peer;
      group.ports.push_back(port);
      group.members.push_back({graph.position_of[peer.node.value()], peer.number, true});
    }
  }
  return group;
}

TEST(MulticastTree, EveryMemberGetsOneCopyOfWhatAnyOtherSends) {
  const std::vector<Subnet> subnets = [] {
    std::vector<Subnet> all;
    all.push_back(testing::fat_tree(3, 3));
    all.push_back(testing::torus({4, 4}, 2));
    all.push_back(testing::random_graph(15, 20, 3));
    return all;
  }();
  for (const Subnet& subnet : subnets) {
    const RoutingGraph graph = make_routing_graph(subnet);
    for (const std::uint32_t root : tree_roots(graph)) {
      const Group group = every_nth_host(subnet, graph, 3);
      const auto masks = multicast_masks(graph, grow_tree(graph, root), group.members);
      for (const PortId sender : group.ports) {
        std::map<PortId, unsigned> expected;
        for (const PortId port : group.ports) {
          if (port != sender) {
            expected[port] = 1;
          }
        }
        EXPECT_EQ(deliver(subnet, graph, masks, sender), expected);
      }
    }
  }
}

TEST(MulticastTree, SendOnlyMembersReachTheGroupAndGetNothing) {
  const Subnet subnet = testing::fat_tree(3, 3);
  const RoutingGraph graph = make_routing_graph(subnet);
  Group group = every_nth_host(subnet, graph, 9);
  group.members[1].receives = false;
  const auto masks =
      multicast_masks(graph, grow_tree(graph, tree_roots(graph).front()), group.members);
  EXPECT_FALSE(deliver(subnet, graph, masks, group.ports[0]).contains(group.ports[1]));
  const auto copies = deliver(subnet, graph, masks, group.ports[1]);
  EXPECT_EQ(copies.at(group.ports[0]), 1U);
  EXPECT_EQ(copies.at(group.ports[2]), 1U);
  EXPECT_EQ(copies.size(), 2U);
}

TEST(MulticastTree, SwitchesWithoutMembersBehindThemStayOut) {
  const Subnet subnet = testing::fat_tree(4, 2);
  const RoutingGraph graph = make_routing_graph(subnet);
  Group group = every_nth_host(subnet, graph, 1);
  group.members.resize(2);  // both at the first leaf
  const auto masks = multicast_masks(graph, grow_tree(graph, 0), group.members);
  std::size_t used = 0;
  for (const PortMask& mask : masks) {
    used += mask.any() ? 1 : 0;
  }
  EXPECT_EQ(used, 1U);
}

}  // namespace
}  // namespace weft::subnet
