// PortInfo read and written by a subnet manager by directed route (IBTA vol 1 §14.2.5.6).

#include <gtest/gtest.h>

#include "agents/testing/managed_fabric.h"
#include "wire/mad/port_info_extended.h"

namespace weft::agents {
namespace {

using testing::ManagedFabric;
using testing::star;
using wire::LinkState;
using wire::PortInfo;
using wire::SmpAttribute;

TEST(SmaPortInfo, ComesUpInInitializeWithoutLids) {
  ManagedFabric fabric{star()};
  const auto h1 = fabric.port("h1", 1);
  const PortInfo hca = fabric.port_info(h1, {}, 1);
  EXPECT_EQ(hca.port_state, LinkState::Init);
  EXPECT_EQ(hca.physical_state, wire::PhysicalState::LinkUp);
  EXPECT_EQ(hca.lid, Lid{});
  EXPECT_EQ(fabric.port_info(h1, {1}, 0).port_state, LinkState::Active);
  EXPECT_EQ(fabric.port_info(h1, {1}, 2).port_state, LinkState::Init);
}

TEST(SmaPortInfo, SaysInPortInfoExtendedThatALinkHasNoForwardErrorCorrection) {
  ManagedFabric fabric{star()};
  const auto h1 = fabric.port("h1", 1);
  EXPECT_TRUE(fabric.port_info(h1, {}, 1).capability_mask2.has(
      wire::PortCapability2::IsPortInfoExtendedSupported));
  EXPECT_TRUE(fabric.port_info(h1, {1}, 0)
                  .capability_mask2.has(wire::PortCapability2::IsPortInfoExtendedSupported));
  const auto answer =
      fabric.ask(h1, {.attribute = SmpAttribute::PortInfoExtended, .modifier = 2}, {1});
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status(), 0);
  EXPECT_EQ(answer->data<wire::PortInfoExtended>(), wire::PortInfoExtended{});
  EXPECT_EQ(
      fabric.ask(h1, {.attribute = SmpAttribute::PortInfoExtended, .modifier = 3}, {1})->status(),
      wire::kMadStatusInvalidField)
      << "s1 has no such port";
  EXPECT_EQ(fabric
                .set(h1, {.attribute = SmpAttribute::PortInfoExtended, .modifier = 2}, {1},
                     wire::PortInfoExtended{})
                ->status(),
            wire::kMadStatusMethodAttributeUnsupported);
}

TEST(SmaPortInfo, MovesAPortFromInitToActiveInOrderOnly) {
  ManagedFabric fabric{star()};
  const auto h1 = fabric.port("h1", 1);
  PortInfo info = fabric.port_info(h1, {1}, 2);
  const auto set = [&](LinkState state) {
    info.port_state = state;
    info.physical_state = wire::PhysicalState::NoChange;
    return fabric.set(h1, {.attribute = SmpAttribute::PortInfo, .modifier = 2}, {1}, info)
        ->status();
  };
  EXPECT_EQ(set(LinkState::Active), wire::kMadStatusInvalidField);
  EXPECT_EQ(set(LinkState::Init), wire::kMadStatusInvalidField);
  EXPECT_EQ(set(LinkState::Armed), 0);
  EXPECT_EQ(set(LinkState::Active), 0);
  EXPECT_EQ(set(LinkState::Armed), wire::kMadStatusInvalidField);
  EXPECT_EQ(fabric.tables.port(fabric.port("s1", 2)).state, fabric::PortState::Active);
  EXPECT_TRUE(fabric.agents.take_tables_changed());
}

TEST(SmaPortInfo, RefusesAPortInfoWholeAndAnswersWhatIsSo) {  // T-MI-4
  ManagedFabric fabric{star()};
  const auto h1 = fabric.port("h1", 1);
  PortInfo info = fabric.port_info(h1, {}, 1);
  info.port_state = LinkState::NoChange;
  info.physical_state = wire::PhysicalState::NoChange;
  info.lid = Lid{5};
  info.master_sm_lid = Lid{0xC001};  // not unicast
  const auto refused =
      fabric.set(h1, {.attribute = SmpAttribute::PortInfo, .modifier = 1}, {}, info);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status(), wire::kMadStatusInvalidField);
  EXPECT_EQ(refused->data<PortInfo>().lid, Lid{});
  EXPECT_EQ(fabric.tables.port(h1).lid, Lid{});

  info.master_sm_lid = Lid{5};
  info.client_reregister = true;
  const auto taken = fabric.set(h1, {.attribute = SmpAttribute::PortInfo, .modifier = 1}, {}, info);
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->status(), 0);
  EXPECT_TRUE(taken->data<PortInfo>().client_reregister);
  EXPECT_FALSE(fabric.port_info(h1, {}, 1).client_reregister);
  EXPECT_EQ(fabric.tables.port(h1).lid, Lid{5});
  EXPECT_EQ(fabric.tables.port(h1).reregistrations, 1);
}

TEST(SmaPortInfo, IsAskedBySubnetManagersThatKnowExtendedSpeedsWithTheFirstBitOfTheModifier) {
  ManagedFabric fabric{star()};
  const auto h1 = fabric.port("h1", 1);
  constexpr std::uint32_t kKnowsExtendedSpeeds = 1U << 31;
  PortInfo info = fabric.port_info(h1, {1}, kKnowsExtendedSpeeds | 2);
  EXPECT_EQ(info.port_state, LinkState::Init);
  info.port_state = LinkState::Armed;
  info.physical_state = wire::PhysicalState::NoChange;
  EXPECT_EQ(
      fabric
          .set(h1, {.attribute = SmpAttribute::PortInfo, .modifier = kKnowsExtendedSpeeds | 2}, {1},
               info)
          ->status(),
      0);
  EXPECT_EQ(fabric.tables.port(fabric.port("s1", 2)).state, fabric::PortState::Armed);
}

/// IBTA vol 1 §14.2.5.6: the counters saturate, and only 0 can be written.
TEST(SmaPortInfo, CountsPacketsWithWrongKeysUntilTheyAreResetToZero) {
  ManagedFabric fabric{star()};
  fabric.manage_star();
  const auto h1 = fabric.port("h1", 1);
  const auto h2 = fabric.port("h2", 1);
  const BadKey bad{.source = Lid{1}, .destination = Lid{2}, .key = 0x8123};
  fabric.agents.note_bad_pkeys(h2, bad, 7, fabric.now);
  fabric.agents.note_bad_qkeys(h2, bad, 0xFFFF, fabric.now);
  fabric.agents.note_bad_qkeys(h2, bad, 0xFFFF'FFFF, fabric.now);
  PortInfo info = fabric.port_info(h1, {1, 2}, 1);
  EXPECT_EQ(info.pkey_violations, 7);
  EXPECT_EQ(info.qkey_violations, 0xFFFF);
  info.port_state = LinkState::NoChange;
  info.physical_state = wire::PhysicalState::NoChange;
  info.pkey_violations = 0;
  info.qkey_violations = 5;
  ASSERT_TRUE(fabric.set(h1, {.attribute = SmpAttribute::PortInfo}, {1, 2}, info));
  info = fabric.port_info(h1, {1, 2}, 1);
  EXPECT_EQ(info.pkey_violations, 0);
  EXPECT_EQ(info.qkey_violations, 0xFFFF);
  fabric.agents.report_bad_pkey(h2, bad, fabric.now);
  EXPECT_EQ(fabric.port_info(h1, {1, 2}, 1).pkey_violations, 1);
  fabric.agents.reset_qkey_violations(h2);
  EXPECT_EQ(fabric.port_info(h1, {1, 2}, 1).qkey_violations, 0);
  EXPECT_EQ(fabric.port_info(h1, {1, 2}, 1).pkey_violations, 1);
}

/// IBTA vol 1 §14.2.5.6: InitType is the port's, InitTypeReply the subnet manager's.
TEST(SmaPortInfo, SaysWhatInitialisationThePortWantsAndWhatTheManagerHasDone) {
  ManagedFabric fabric{star()};
  fabric.manage_star();
  const auto h1 = fabric.port("h1", 1);
  fabric.agents.set_init_type(fabric.port("h2", 1), 0x35);
  PortInfo info = fabric.port_info(h1, {1, 2}, 1);
  EXPECT_EQ(info.init_type, 5) << "four bits";
  EXPECT_EQ(info.init_type_reply, 0);
  info.port_state = LinkState::NoChange;
  info.physical_state = wire::PhysicalState::NoChange;
  info.init_type = 0;
  info.init_type_reply = 5;
  ASSERT_TRUE(fabric.set(h1, {.attribute = SmpAttribute::PortInfo}, {1, 2}, info));
  info = fabric.port_info(h1, {1, 2}, 1);
  EXPECT_EQ(info.init_type, 5);
  EXPECT_EQ(info.init_type_reply, 5);
}

}  // namespace
}  // namespace weft::agents
