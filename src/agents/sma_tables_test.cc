// Tables read and written by a subnet manager by directed route (IBTA vol 1 §14.2.5).

#include <gtest/gtest.h>

#include "agents/testing/managed_fabric.h"
#include "wire/mad/port_tables.h"
#include "wire/mad/switch_info.h"

namespace weft::agents {
namespace {

using testing::ManagedFabric;
using testing::star;
using wire::LinkState;
using wire::PortInfo;
using wire::SmpAttribute;

TEST(SmaTables, GivesEveryPortGidsOfTheNewPrefix) {
  ManagedFabric fabric{star()};
  const auto h2 = fabric.port("h2", 1);
  wire::GuidInfo guids;
  guids.guids[0] = Guid{99};  // read-only
  guids.guids[3] = Guid{0x1234};
  const auto written =
      fabric.set(fabric.port("h1", 1), {.attribute = SmpAttribute::GuidInfo}, {1, 2}, guids);
  ASSERT_TRUE(written);
  EXPECT_EQ(written->data<wire::GuidInfo>().guids[0], fabric.tables.port(h2).guid);
  PortInfo info = fabric.port_info(fabric.port("h1", 1), {1, 2}, 1);
  info.port_state = LinkState::NoChange;
  info.physical_state = wire::PhysicalState::NoChange;
  info.gid_prefix = 0xFEC0'0000'0000'0001;
  ASSERT_TRUE(
      fabric.set(fabric.port("h1", 1), {.attribute = SmpAttribute::PortInfo}, {1, 2}, info));
  ASSERT_EQ(fabric.tables.gids(h2).size(), 4U);
  EXPECT_EQ(fabric.tables.gids(h2)[3], (Gid{0xFEC0'0000'0000'0001, Guid{0x1234}}));
}

TEST(SmaTables, WritesPKeysInTheirPlaces) {
  ManagedFabric fabric{star()};
  wire::PKeyTable table;
  table.pkeys[0] = kDefaultPKey;
  table.pkeys[2] = PKey{0x8005};
  const auto written =
      fabric.set(fabric.port("h1", 1), {.attribute = SmpAttribute::PKeyTable}, {1, 2}, table);
  ASSERT_TRUE(written);
  EXPECT_EQ(written->data<wire::PKeyTable>(), table);
  const auto pkeys = fabric.tables.pkeys(fabric.port("h2", 1));
  ASSERT_EQ(pkeys.size(), 3U);
  EXPECT_EQ(pkeys[2], PKey{0x8005});
  EXPECT_EQ(fabric
                .ask(fabric.port("h1", 1),
                     {.attribute = SmpAttribute::PKeyTable, .modifier = kPartitionCap / 32}, {1, 2})
                ->status(),
            wire::kMadStatusInvalidField);
}

TEST(SmaTables, ForwardsAsItsTablesSayAndNotAboveTheTop) {
  ManagedFabric fabric{star()};
  const auto h1 = fabric.port("h1", 1);
  wire::LinearForwardingTable block;
  block.ports.fill(wire::kNoForwardingPort);
  block.ports[6] = PortNumber{2};
  block.ports[7] = PortNumber{200};  // s1 has no such port
  const auto written =
      fabric.set(h1, {.attribute = SmpAttribute::LinearForwardingTable, .modifier = 1}, {1}, block);
  ASSERT_TRUE(written);
  EXPECT_EQ(written->data<wire::LinearForwardingTable>().ports[6], PortNumber{2});
  EXPECT_EQ(written->data<wire::LinearForwardingTable>().ports[7], wire::kNoForwardingPort);
  const auto s1 = fabric.node("s1");
  EXPECT_EQ(fabric.tables.forward(s1, Lid{70}), PortNumber{2});

  auto info =
      fabric.ask(h1, {.attribute = SmpAttribute::SwitchInfo}, {1})->data<wire::SwitchInfo>();
  EXPECT_TRUE(info.port_state_change);
  info.linear_fdb_top = 69;
  info =
      fabric.set(h1, {.attribute = SmpAttribute::SwitchInfo}, {1}, info)->data<wire::SwitchInfo>();
  EXPECT_FALSE(info.port_state_change);  // writing 1 cleared it
  EXPECT_EQ(info.linear_fdb_top, 69);
  EXPECT_EQ(fabric.tables.forward(s1, Lid{70}), fabric::kNoRoute);
  const auto image = fabric.tables.build(1);
  const auto view = fabric::TablesView::open(image);
  ASSERT_TRUE(view);
  EXPECT_EQ(view->forward(view->node(s1), Lid{70}), fabric::kNoRoute);
  EXPECT_EQ(
      fabric.ask(h1, {.attribute = SmpAttribute::LinearForwardingTable, .modifier = 0x300}, {1})
          ->status(),
      wire::kMadStatusInvalidField);
}

TEST(SmaTables, WritesMulticastMasksForPortsThatThereAre) {
  ManagedFabric fabric{*fabric::generate_star(20)};
  const auto h1 = fabric.port("h1", 1);
  wire::MulticastForwardingTable block;
  block.port_masks[1] = 0xFFFF;
  const std::uint32_t modifier = 1U << 28 | 2;  // ports 16 to 31, MLIDs from 0xC040 on
  const auto written = fabric.set(
      h1, {.attribute = SmpAttribute::MulticastForwardingTable, .modifier = modifier}, {1}, block);
  ASSERT_TRUE(written);
  EXPECT_EQ(written->status(), 0);
  EXPECT_EQ(written->data<wire::MulticastForwardingTable>().port_masks[1], 0x1F);  // 16 to 20
  const auto image = fabric.tables.build(1);
  const auto view = fabric::TablesView::open(image);
  const auto& s1 = view->node(fabric.node("s1"));
  EXPECT_TRUE(view->forwards_multicast(s1, Lid{0xC041}, PortNumber{20}));
  EXPECT_FALSE(view->forwards_multicast(s1, Lid{0xC041}, PortNumber{15}));
}

TEST(SmaTables, LevelsOnVl15AreInTheTablesOfAnHcaPort) {
  ManagedFabric fabric{star()};
  const auto h1 = fabric.port("h1", 1);
  const auto is_management = [&](std::uint8_t sl) {
    const auto image = fabric.tables.build(1);
    return fabric::TablesView::open(image)->is_management_level(fabric.port("h2", 1),
                                                                ServiceLevel{sl});
  };
  wire::SlToVlMappingTable lanes;
  lanes.vls[3] = VirtualLane{15};
  const auto set = [&] {
    return fabric.set(h1, {.attribute = SmpAttribute::SlToVlMappingTable}, {1, 2}, lanes)->status();
  };
  EXPECT_FALSE(is_management(3));
  EXPECT_EQ(set(), 0);
  EXPECT_TRUE(is_management(3));
  EXPECT_FALSE(is_management(2));
  lanes.vls[3] = VirtualLane{0};
  EXPECT_EQ(set(), 0);
  EXPECT_FALSE(is_management(3));
}

TEST(SmaTables, GuidInfoHasAsManyBlocksAsGuidCapSays) {
  ManagedFabric fabric{star()};
  const auto h1 = fabric.port("h1", 1);
  const auto status_of = [&](std::uint32_t block) {
    return fabric.ask(h1, {.attribute = SmpAttribute::GuidInfo, .modifier = block}, {1, 2})
        ->status();
  };
  const auto h2 = fabric.port("h2", 1);
  EXPECT_EQ(status_of(3), 0);
  EXPECT_NE(status_of(4), 0);
  fabric.agents.set_guid_cap(h2, 248, fabric.now);
  EXPECT_EQ(fabric.agents.port_info(h2).guid_cap, 248);
  EXPECT_EQ(status_of(30), 0);
  EXPECT_NE(status_of(31), 0);
}

TEST(SmaTables, KeepsQosTablesByPort) {
  ManagedFabric fabric{star()};
  const auto h1 = fabric.port("h1", 1);
  wire::SlToVlMappingTable lanes;
  lanes.vls.fill(VirtualLane{3});
  const std::uint32_t in_1_out_2 = 1U << 8 | 2;
  ASSERT_EQ(fabric
                .set(h1, {.attribute = SmpAttribute::SlToVlMappingTable, .modifier = in_1_out_2},
                     {1}, lanes)
                ->status(),
            0);
  const auto read = [&](std::uint32_t modifier) {
    return fabric
        .ask(h1, {.attribute = SmpAttribute::SlToVlMappingTable, .modifier = modifier}, {1})
        ->data<wire::SlToVlMappingTable>();
  };
  EXPECT_EQ(read(in_1_out_2), lanes);
  EXPECT_EQ(read(2U << 8 | 1).vls[5], VirtualLane{5});

  wire::VlArbitrationTable arbitration;
  arbitration.entries[0] = {.vl = VirtualLane{1}, .weight = 200};
  const auto set =
      fabric.set(h1, {.attribute = SmpAttribute::VlArbitrationTable, .modifier = 3U << 16 | 2}, {1},
                 arbitration);
  EXPECT_EQ(set->data<wire::VlArbitrationTable>(), arbitration);
  EXPECT_EQ(
      fabric
          .ask(h1, {.attribute = SmpAttribute::VlArbitrationTable, .modifier = 2U << 16 | 2}, {1})
          ->status(),
      wire::kMadStatusInvalidField);
}

}  // namespace
}  // namespace weft::agents
