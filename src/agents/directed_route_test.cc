// The SMI's rules for directed routes (IBTA vol 1 §14.2.2).

#include <gtest/gtest.h>

#include "agents/testing/managed_fabric.h"

namespace weft::agents {
namespace {

using mad::InterfaceKind;
using testing::ManagedFabric;
using testing::star;
using wire::SmpAttribute;

TEST(DirectedRoute, ComesBackWithTheWayItTook) {
  ManagedFabric fabric{star()};
  const auto h2 = fabric.port("h2", 1);
  const auto answer = fabric.ask(h2, {.attribute = SmpAttribute::NodeInfo}, {1, 1});
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->directed().direction);
  EXPECT_EQ(answer->directed().hop_pointer, 0);
  EXPECT_EQ(answer->directed().hop_count, 2);
  EXPECT_EQ(answer->mad[wire::kSmpReturnPathAt + 1], std::byte{2});  // into s1 by port 2
  EXPECT_EQ(answer->mad[wire::kSmpReturnPathAt + 2], std::byte{1});  // into h1
  EXPECT_EQ(answer->source.lid, kPermissiveLid);
}

TEST(DirectedRoute, PassesAnHcaNever) {
  ManagedFabric fabric{star()};
  EXPECT_FALSE(fabric.ask(fabric.port("h1", 1), {.attribute = SmpAttribute::NodeInfo}, {1, 2, 1}));
  EXPECT_FALSE(fabric.ask(fabric.port("h1", 1), {.attribute = SmpAttribute::NodeInfo}, {2}));
  EXPECT_FALSE(fabric.ask(fabric.port("h1", 1), {.attribute = SmpAttribute::NodeInfo}, {1, 0}));
  EXPECT_FALSE(fabric.ask(fabric.port("h1", 1), {.attribute = SmpAttribute::NodeInfo}, {1, 99}));
  EXPECT_EQ(fabric.network.counters().bad_path, 4U);
}

TEST(DirectedRoute, LeavesASwitchToo) {
  ManagedFabric fabric{star()};
  const auto answer = fabric.ask(fabric.port("s1", 0), {.attribute = SmpAttribute::NodeInfo}, {2});
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->data<wire::NodeInfo>().port_guid,
            fabric.tables.port(fabric.port("h2", 1)).guid);
}

TEST(DirectedRoute, MayBeginAndEndByLid) {  // §14.2.2: DrSLID and DrDLID that are not permissive
  ManagedFabric fabric{star()};
  fabric.manage_star();
  const auto h1 = fabric.port("h1", 1);
  wire::SmpDirected smp{
      .header = {.method = wire::MadMethod::Get,
                 .hop_count = 1,
                 .attribute_id = static_cast<std::uint16_t>(SmpAttribute::NodeInfo)},
      .dr_slid = Lid{1},
      .dr_dlid = kPermissiveLid
  };
  smp.initial_path[1] = std::byte{2};
  const auto from_switch =
      fabric.send(h1, wire::pack(smp), Lid{3});  // by LID to s1, then out of port 2
  ASSERT_TRUE(from_switch);
  EXPECT_EQ(from_switch->data<wire::NodeInfo>().port_guid,
            fabric.tables.port(fabric.port("h2", 1)).guid);
  EXPECT_EQ(from_switch->source.lid, Lid{3});

  smp.dr_slid = kPermissiveLid;
  smp.dr_dlid = Lid{2};
  smp.initial_path[1] = std::byte{1};
  const auto to_lid = fabric.send(h1, wire::pack(smp));  // one hop to s1, then by LID to h2
  ASSERT_TRUE(to_lid);
  EXPECT_EQ(to_lid->data<wire::NodeInfo>().port_guid,
            fabric.tables.port(fabric.port("h2", 1)).guid);
  EXPECT_EQ(to_lid->directed().hop_pointer, 0);
}

TEST(DirectedRoute, RefusesHopsThatCannotBe) {
  ManagedFabric fabric{star()};
  const auto h1 = fabric.port("h1", 1);
  const auto lost = [&](std::uint8_t pointer, std::uint8_t count, bool direction) {
    mad::MadBytes mad = ManagedFabric::directed({.attribute = SmpAttribute::NodeInfo}, {1, 2});
    mad[6] = std::byte{pointer};
    mad[7] = std::byte{count};
    mad[4] = direction ? std::byte{0x80} : std::byte{};
    const std::uint64_t before = fabric.network.counters().bad_path;
    fabric.delivered.clear();
    fabric.network.send(h1, InterfaceKind::Smi, {.address = {.lid = kPermissiveLid}, .bytes = mad});
    fabric.run();
    return fabric.delivered.empty() && fabric.network.counters().bad_path == before + 1;
  };
  EXPECT_TRUE(lost(0, 64, false));  // more hops than the path field holds
  EXPECT_TRUE(lost(0, 255, false));
  EXPECT_TRUE(lost(1, 2, false));  // as if it had arrived elsewhere
  EXPECT_TRUE(lost(3, 2, false));
  EXPECT_TRUE(lost(200, 2, false));
  EXPECT_TRUE(lost(0, 2, true));
  EXPECT_TRUE(lost(2, 2, true));
  EXPECT_TRUE(lost(3, 2, true));  // its return path names a port that the HCA does not have
  EXPECT_TRUE(lost(255, 63, true));
}

}  // namespace
}  // namespace weft::agents
