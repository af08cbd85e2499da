#include "fabric/tables.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "fabric/testing/running_fabric.h"

namespace weft::fabric {
namespace {

using testing::RunningFabric;

TEST(TablesBuilder, HoldSeveralGidsAndPKeysOfAPort) {
  RunningFabric fabric{generate_pair()};
  const PortIndex port = fabric.port("h2", 1);
  const Gid alias{kDefaultGidPrefix, Guid{42}};
  const std::vector<Gid> gids = {fabric.view().gids(fabric.view().port(port))[0], alias};
  const std::vector<PKey> pkeys = {kDefaultPKey, PKey{0x8005}};
  fabric.builder.set_gids(port, gids);
  fabric.builder.set_pkeys(port, pkeys);
  fabric.publish();
  const TablesView view = fabric.view();
  EXPECT_EQ(view.owner_of(alias), port);
  EXPECT_TRUE(std::ranges::equal(view.gids(view.port(port)), gids));
  EXPECT_TRUE(std::ranges::equal(view.pkeys(view.port(port)), pkeys));
  EXPECT_EQ(view.pkeys(view.port(fabric.port("h1", 1))).size(), 1U);
}

TEST(TablesBuilder, OfTheSameStateAreTheSameBytes) {
  const auto topology = generate_fat_tree(4, 2);
  TablesBuilder one{*topology};
  TablesBuilder other{*topology};
  ASSERT_TRUE(testing::TestRoutes{one}.bring_up());
  ASSERT_TRUE(testing::TestRoutes{other}.bring_up());
  EXPECT_EQ(one.build(7), other.build(7));
  EXPECT_NE(one.build(7), one.build(8));
}

TEST(TablesBuilder, ForwardAsProgrammedAndDropAboveTheTop) {
  RunningFabric fabric{*generate_star(3)};
  const NodeIndex s1 = fabric.node("s1");
  fabric.builder.set_forwarding(s1, Lid{77}, PortNumber{2});
  fabric.publish();
  EXPECT_EQ(fabric.view().forward(fabric.view().node(s1), Lid{77}), PortNumber{2});
  EXPECT_EQ(fabric.view().forward(fabric.view().node(s1), Lid{76}), kNoRoute);
  EXPECT_EQ(fabric.view().forward(fabric.view().node(s1), Lid{78}), kNoRoute);
  EXPECT_EQ(fabric.view().node(s1).forwarding_count, 78U);  // ends at LinearFDBTop
  fabric.builder.set_forwarding(s1, Lid{77}, kNoRoute);
  fabric.publish();
  EXPECT_EQ(fabric.view().forward(fabric.view().node(s1), Lid{77}), kNoRoute);
}

TEST(TablesBuilder, LinkEncodingsReachTheRateOfTheCable) {
  Topology topology = generate_pair();
  topology.links[0].rate_gbps = 40;
  const TablesBuilder builder{topology};
  EXPECT_EQ(builder.ports()[0].active_width, 2);  // 4x
  EXPECT_EQ(builder.ports()[0].active_speed, 4);  // 10 Gb/s
  EXPECT_EQ(builder.ports()[1].active_speed_extended, 0);
}

}  // namespace
}  // namespace weft::fabric
