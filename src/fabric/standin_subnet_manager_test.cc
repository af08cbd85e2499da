#include "fabric/standin_subnet_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "fabric/testing/running_fabric.h"

namespace weft::fabric {
namespace {

using testing::RunningFabric;

TEST(StandIn, GivesHostsTheLowLidsInTheirOrder) {
  const RunningFabric fabric{*generate_fat_tree(4, 2)};
  for (std::uint32_t host = 1; host <= 8; ++host) {
    EXPECT_EQ(fabric.lid("h" + std::to_string(host)), Lid{host});
  }
  EXPECT_EQ(fabric.lid("s1", 0), Lid{9});
  EXPECT_EQ(fabric.lid("s6", 0), Lid{14});
}

TEST(StandIn, RangesOfLidsAreAlignedAndDoNotOverlap) {
  Topology topology = *generate_star(20);
  for (std::size_t i = 0; i < topology.hosts.size(); ++i) {
    topology.hosts[i].hcas[0].ports[0].lmc = static_cast<std::uint8_t>(i * 5 % 8);
  }
  const RunningFabric fabric{topology};
  std::set<std::uint32_t> used;
  for (const PortRecord& port : fabric.builder.ports()) {
    if (port.lid == Lid{}) {
      continue;
    }
    EXPECT_EQ(port.lid.value() % (1U << port.lmc), 0U);
    for (std::uint32_t bits = 0; bits < 1U << port.lmc; ++bits) {
      EXPECT_TRUE(used.insert(port.lid.value() + bits).second);
    }
  }
  EXPECT_EQ(*used.begin(), 1U);
}

TEST(StandIn, LeavesPortsWithoutACableDown) {
  Topology topology = generate_pair();
  topology.hosts.push_back(make_host("h3"));
  const RunningFabric fabric{topology};
  EXPECT_EQ(fabric.builder.port(fabric.port("h3", 1)).state, PortState::Down);
  EXPECT_EQ(fabric.lid("h3"), Lid{});
  EXPECT_EQ(fabric.builder.port(fabric.port("h2", 1)).state, PortState::Active);
}

TEST(StandIn, RefusesMorePortsThanThereAreUnicastLids) {
  Topology topology = *generate_fat_tree(40, 2);  // 800 hosts of 128 LIDs
  for (HostDescription& host : topology.hosts) {
    host.hcas[0].ports[0].lmc = 7;
  }
  TablesBuilder builder{topology};
  const auto up = StandInSubnetManager{builder}.bring_up();
  ASSERT_FALSE(up);
  EXPECT_THAT(up.error().reason, ::testing::HasSubstr("49151 unicast LIDs"));
}

TEST(StandIn, RoutesAroundALinkThatWentDown) {
  RunningFabric fabric{*generate_fat_tree(4, 2)};
  const Path before = resolve(fabric.view(), fabric.port("h1", 1), fabric.lid("h8"));
  fabric.builder.set_link_state(before.hops[1].egress, PortState::Down);
  fabric.publish();
  EXPECT_EQ(resolve(fabric.view(), fabric.port("h1", 1), fabric.lid("h8")).outcome,
            PathOutcome::LinkDown);
  fabric.manager.reroute();
  fabric.publish();
  for (int host = 2; host <= 8; ++host) {
    const Path after =
        resolve(fabric.view(), fabric.port("h1", 1), fabric.lid("h" + std::to_string(host)));
    EXPECT_TRUE(after.is_delivered()) << describe(fabric.view(), after);
  }
  const auto tree = resolve_multicast(fabric.view(), fabric.port("h1", 1), kBroadcastMlid);
  EXPECT_EQ(tree.members.size(), 7U);
  EXPECT_TRUE(tree.dropped_at.empty());
}

TEST(StandIn, FabricsInTwoPartsAreRoutedApart) {
  Topology topology = *generate_star(4);
  topology.switches.push_back({"s2", 2});
  topology.links[2].b = {NodeKind::Switch, 1, 0, PortNumber{1}};
  topology.links[3].b = {NodeKind::Switch, 1, 0, PortNumber{2}};
  const RunningFabric fabric{topology};
  const TablesView view = fabric.view();
  EXPECT_TRUE(resolve(view, fabric.port("h3", 1), fabric.lid("h4")).is_delivered());
  EXPECT_EQ(resolve(view, fabric.port("h1", 1), fabric.lid("h4")).outcome, PathOutcome::NoRoute);
  EXPECT_THAT(resolve_multicast(view, fabric.port("h1", 1), kBroadcastMlid).members,
              ::testing::ElementsAre(fabric.port("h2", 1)));
}

TEST(StandIn, RefusesGroupsAndMembersThatCannotBe) {
  RunningFabric fabric{*generate_star(3)};
  EXPECT_FALSE(fabric.manager.join(Lid{5}, fabric.port("h1", 1)));
  EXPECT_FALSE(fabric.manager.join(Lid{0xFFFE}, fabric.port("h1", 1)));
  EXPECT_FALSE(fabric.manager.join(Lid{0xC001}, fabric.port("s1", 1)));
  EXPECT_FALSE(fabric.manager.join(Lid{0xC001}, PortIndex{9999}));
  EXPECT_FALSE(fabric.manager.leave(Lid{0xC001}, fabric.port("h1", 1)));
  EXPECT_TRUE(fabric.manager.join(Lid{0xC001}, fabric.port("h1", 1)));
  EXPECT_TRUE(fabric.manager.leave(Lid{0xC001}, fabric.port("h1", 1)));
  EXPECT_FALSE(fabric.manager.leave(Lid{0xC001}, fabric.port("h1", 1)));
}

}  // namespace
}  // namespace weft::fabric
