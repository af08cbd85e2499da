// Ways of MADs by LID, and where they are lost.

#include "carriage/management_network.h"

#include <gtest/gtest.h>

#include "agents/testing/managed_fabric.h"

namespace weft::carriage {
namespace {

using agents::testing::Delivered;
using agents::testing::ManagedFabric;
using agents::testing::star;
using mad::InterfaceKind;
using wire::SmpAttribute;

TEST(LidRouted, FollowsTheSwitchesTables) {
  ManagedFabric fabric{star()};
  fabric.manage_star();
  const auto h1 = fabric.port("h1", 1);
  const auto mad = ManagedFabric::routed({.attribute = SmpAttribute::NodeInfo});
  const auto h2 = fabric.send(h1, mad, Lid{2});
  ASSERT_TRUE(h2);
  EXPECT_EQ(h2->source.lid, Lid{2});
  EXPECT_EQ(fabric.send(h1, mad, Lid{3})->data<wire::NodeInfo>().local_port, PortNumber{1});
  EXPECT_TRUE(fabric.send(h1, mad, Lid{1}));  // itself
  EXPECT_FALSE(fabric.send(h1, mad, Lid{40}));
  EXPECT_EQ(fabric.network.counters().no_route, 1U);
  // An HCA takes nothing that is not its own.
  fabric.tables.set_forwarding(fabric.node("s1"), Lid{40}, PortNumber{2});
  EXPECT_FALSE(fabric.send(h1, mad, Lid{40}));
  EXPECT_EQ(fabric.network.counters().unroutable, 1U);
}

TEST(LidRouted, ReachesTheNeighbourByThePermissiveLid) {
  ManagedFabric fabric{star()};
  const auto answer = fabric.send(fabric.port("h1", 1),
                                  ManagedFabric::routed({.attribute = SmpAttribute::NodeInfo}));
  EXPECT_FALSE(answer);  // the answer to the permissive LID has no port to leave s1 by
  EXPECT_EQ(fabric.agents.counters().answered, 1U);
}

TEST(LidRouted, LoopsEnd) {
  ManagedFabric fabric{*fabric::generate_fat_tree(4, 2)};
  const auto from = fabric.port("h1", 1);
  for (const fabric::NodeRecord& node : fabric.tables.nodes()) {
    if (node.kind == fabric::NodeKind::Switch) {
      const auto at = fabric.tables.port(node.first_port).node;
      fabric.tables.set_forwarding(at, Lid{9}, PortNumber{3});  // up and down for ever
    }
  }
  EXPECT_FALSE(
      fabric.send(from, ManagedFabric::routed({.attribute = SmpAttribute::NodeInfo}), Lid{9}));
  EXPECT_EQ(fabric.network.counters().carried, 0U);
}

class Gsi : public ::testing::Test {
 protected:
  Gsi() { fabric.manage_star(); }
  bool arrives(const mad::MadAddress& to) {
    fabric.delivered.clear();
    mad::MadBytes mad{};
    wire::pack(wire::MadHeader{.mgmt_class = wire::ManagementClass::ComMgt,
                               .class_version = 2,
                               .method = wire::MadMethod::Send},
               std::span{mad}.first<24>());
    fabric.network.send(fabric.port("h1", 1), InterfaceKind::Gsi, {.address = to, .bytes = mad});
    fabric.run();
    for (const Delivered& each : fabric.delivered) {
      if (each.kind == InterfaceKind::Gsi) {
        return each.at == fabric.port("h2", 1);
      }
    }
    return false;
  }
  ManagedFabric fabric{star()};
};

TEST_F(Gsi, WantsActivePortsWhereSmpsPassInInitialize) {
  EXPECT_TRUE(arrives({.lid = Lid{2}}));
  fabric.tables.set_state(fabric.port("h2", 1), fabric::PortState::Armed);
  EXPECT_TRUE(arrives({.lid = Lid{2}}));
  fabric.tables.set_state(fabric.port("h2", 1), fabric::PortState::Initialize);
  EXPECT_FALSE(arrives({.lid = Lid{2}}));
  EXPECT_TRUE(fabric.send(fabric.port("h1", 1),
                          ManagedFabric::routed({.attribute = SmpAttribute::NodeInfo}), Lid{2}));
}

TEST_F(Gsi, ChecksKeysAndCountsViolations) {  // traps 257 and 258
  EXPECT_FALSE(arrives({.lid = Lid{2}, .qkey = QKey{5}}));
  EXPECT_EQ(fabric.agents.port_agent(fabric.port("h2", 1)).qkey_violations, 1);
  const std::vector<PKey> pkeys{kDefaultPKey, PKey{0x8007}};
  fabric.tables.set_pkeys(fabric.port("h1", 1), pkeys);
  EXPECT_FALSE(arrives({.lid = Lid{2}, .pkey = PKey{0x8007}}));
  EXPECT_EQ(fabric.agents.port_agent(fabric.port("h2", 1)).pkey_violations, 1);
  EXPECT_FALSE(arrives({.lid = Lid{2}, .pkey = PKey{0x8008}}));  // h1 has no such key to send with
  EXPECT_EQ(fabric.agents.port_agent(fabric.port("h2", 1)).pkey_violations, 1);
  EXPECT_EQ(fabric.network.counters().traps, 2U);
  EXPECT_FALSE(arrives({.lid = Lid{2}, .qp = Qpn{77}}));
}

TEST_F(Gsi, ShowsTheSenderAsItCanBeReached) {
  ASSERT_TRUE(arrives({.lid = Lid{2}, .sl = ServiceLevel{3}, .global = mad::GlobalRoute{}}));
  const mad::MadAddress source = fabric.delivered.front().source;
  EXPECT_EQ(source.lid, Lid{1});
  EXPECT_EQ(source.sl, ServiceLevel{3});
  EXPECT_EQ(source.qp, kQp1);
  ASSERT_TRUE(source.global);
  EXPECT_EQ(source.global->dgid, fabric.tables.gids(fabric.port("h1", 1)).front());
}

TEST_F(Gsi, IsAnsweredByThePKeyOfWhoAnswers) {  // IBTA vol 1 §10.9.3
  fabric.tables.set_pkeys(fabric.port("h1", 1), std::vector{PKey{0x7FFF}});
  ASSERT_TRUE(arrives({.lid = Lid{2}, .pkey = PKey{0x7FFF}}));
  EXPECT_EQ(fabric.delivered.front().source.pkey, kDefaultPKey);
}

TEST(ManagementNetwork, HoldsAFloodWithinItsLimits) {
  ManagedFabric fabric{star()};
  const auto h1 = fabric.port("h1", 1);
  const mad::MadPacket packet{
      .address = {.lid = kPermissiveLid},
      .bytes = ManagedFabric::directed({.attribute = SmpAttribute::NodeInfo}, {1})};
  for (std::size_t i = 0; i < ManagementNetwork::kQueuedOfPort + 10; ++i) {
    fabric.network.send(h1, InterfaceKind::Smi, packet);
  }
  EXPECT_EQ(fabric.network.counters().queue_full, 10U);
  fabric.network.send(fabric.port("h2", 1), InterfaceKind::Smi, packet);  // others still may
  EXPECT_EQ(fabric.network.queued(), ManagementNetwork::kQueuedOfPort + 1);
  EXPECT_TRUE(fabric.network.run(10, fabric.now));
  EXPECT_EQ(fabric.network.queued(), ManagementNetwork::kQueuedOfPort - 9);
  fabric.run();
  EXPECT_EQ(fabric.delivered.size(), ManagementNetwork::kQueuedOfPort + 1);
}

}  // namespace
}  // namespace weft::carriage
