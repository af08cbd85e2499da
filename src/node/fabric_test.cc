#include "node/fabric.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fabric/testing/omni_path_star.h"

namespace weft::node {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::unique_ptr<Fabric> make(std::string_view kind) {
  auto fabric = Fabric::create(*fabric::generate(kind), Instant{});
  EXPECT_TRUE(fabric);
  return std::move(*fabric);
}

TEST(Fabric, AttachesProcessesToHostsByName) {
  const auto fabric = make("pair");
  const auto a = fabric->attach("h1", Instant{});
  const auto b = fabric->attach("h1", Instant{});
  const auto c = fabric->attach("h2", Instant{});
  ASSERT_TRUE(a && b && c);
  EXPECT_EQ(a->host, b->host);
  EXPECT_NE(a->slot, b->slot);
  EXPECT_NE(a->host, c->host);
  const auto nobody = fabric->attach("h9", Instant{});
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().code, ErrorCode::NotFound);
}

TEST(Fabric, TellsThePeersOfTheDead) {
  const auto fabric = make("pair");
  const ProcessId a = *fabric->attach("h1", Instant{});
  const ProcessId b = *fabric->attach("h2", Instant{});
  EXPECT_TRUE(*fabric->join_lane(a, b));
  EXPECT_FALSE(*fabric->join_lane(b, a)) << "one lane for both directions";
  EXPECT_FALSE(fabric->join_lane(a, a));
  EXPECT_THAT(fabric->detach(a, Instant{}).peers, ElementsAre(b));
  EXPECT_FALSE(fabric->has(a));
  EXPECT_FALSE(fabric->join_lane(b, a)) << "the dead cannot be joined";
  EXPECT_TRUE(fabric->detach(b, Instant{}).peers.empty());
}

TEST(Fabric, CountsMembersOfGroupsAndForgetsThoseOfTheDead) {
  const auto fabric = make("star:3");
  const ProcessId a = *fabric->attach("h1", Instant{});
  const ProcessId b = *fabric->attach("h2", Instant{});
  const auto port_a = fabric->find_ports("h1:1")->front();
  const auto port_b = fabric->find_ports("h2:1")->front();
  constexpr Lid kGroup{0xC005};
  constexpr Gid kMgid{0xFF0E'0000'0000'0000, Guid{5}};
  EXPECT_TRUE(*fabric->join_group(a, port_a, kMgid, kGroup, Instant{}));
  EXPECT_FALSE(*fabric->join_group(a, port_a, kMgid, kGroup, Instant{}))
      << "a second QP of the same process";
  EXPECT_TRUE(*fabric->join_group(b, port_b, kMgid, kGroup, Instant{}));
  EXPECT_FALSE(fabric->join_group(a, port_b, kMgid, kGroup, Instant{})) << "another host's port";
  EXPECT_THAT(fabric->members(kGroup), ElementsAre(a, b));
  EXPECT_FALSE(*fabric->leave_group(a, port_a, kMgid, kGroup, Instant{}));
  EXPECT_TRUE(*fabric->leave_group(a, port_a, kMgid, kGroup, Instant{}));
  EXPECT_THAT(fabric->members(kGroup), ElementsAre(b));
  EXPECT_THAT(fabric->detach(b, Instant{}).groups, ElementsAre(kGroup));
  EXPECT_TRUE(fabric->groups().empty());
}

TEST(Fabric, NotesBadKeysOfAProcessesOwnPortsOnly) {
  const auto fabric = make("pair");
  const ProcessId a = *fabric->attach("h1", Instant{});
  const auto own = fabric->find_ports("h1:1")->front();
  const agents::BadKey last{
      .source = Lid{0xFFFF'FFFF}, .destination = Lid{0x1'0001}, .sl = ServiceLevel{0xFF}, .key = 1};
  EXPECT_TRUE(fabric->note_bad_keys(a, {.port = own, .count = 3, .last = last}, Instant{}));
  EXPECT_TRUE(fabric->note_bad_keys(a, {.port = own, .is_qkey = true, .count = 5, .last = last},
                                    Instant{}));
  const wire::PortInfo info = fabric->management().agents().port_info(own);
  EXPECT_EQ(info.pkey_violations, 3);
  EXPECT_EQ(info.qkey_violations, 5);
  for (const fabric::PortIndex other :
       {fabric->find_ports("h2:1")->front(), fabric::PortIndex{9'999}}) {
    EXPECT_FALSE(fabric->note_bad_keys(a, {.port = other, .count = 1, .last = last}, Instant{}));
  }
}

TEST(Fabric, ShowsThePacketsOfAPortWhileItIsTapped) {
  const auto fabric = make("star:3");
  const auto ports = fabric->find_ports("s1");
  ASSERT_TRUE(ports);
  EXPECT_EQ(ports->size(), 3U);
  EXPECT_FALSE(fabric->find_ports("s1:9"));
  const auto port = fabric->find_ports("s1:2")->front();
  fabric->tap(port);
  fabric->tap(port);
  fabric->untap(port);
  EXPECT_TRUE(fabric->builder().port(port).is_tapped());
  fabric->untap(port);
  EXPECT_FALSE(fabric->builder().port(port).is_tapped());
}

TEST(Fabric, HasAnInfiniBandManagerForItsInfiniBandPartAlone) {
  auto fabric = Fabric::create(fabric::testing::omni_path_beside_infiniband(), Instant{});
  ASSERT_TRUE(fabric);
  const auto port = [&](std::string_view name) { return (*fabric)->find_ports(name)->front(); };
  EXPECT_EQ((*fabric)->builder().port(port("h1:1")).lid, Lid{1});
  EXPECT_EQ((*fabric)->builder().port(port("h2:1")).state, fabric::PortState::Active);
  EXPECT_TRUE((*fabric)->is_managed_from(port("h1:1")));
  EXPECT_FALSE((*fabric)->is_managed_from(port("o1:1")));
  EXPECT_EQ((*fabric)->builder().port(port("o1:1")).sm_lid, Lid{});
  const auto refused = Fabric::create(fabric::testing::omni_path_beside_infiniband(), Instant{},
                                      {.sm_port = "o1:1"});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().reason, HasSubstr("choose a cabled InfiniBand port"));
}

}  // namespace
}  // namespace weft::node
