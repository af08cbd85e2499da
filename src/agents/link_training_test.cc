// Links that go down and up, by cable and by Set(PortInfo) (IBTA vol 1 §14.2.5.6).

#include <gtest/gtest.h>

#include "agents/testing/managed_fabric.h"
#include "wire/mad/switch_info.h"

namespace weft::agents {
namespace {

using fabric::PortState;
using testing::Delivered;
using testing::ManagedFabric;
using testing::star;
using wire::LinkState;
using wire::PhysicalState;
using wire::PortInfo;
using wire::SmpAttribute;

class LinkTraining : public ::testing::Test {
 protected:
  LinkTraining() { fabric.manage_star(); }

  std::uint16_t set_port(std::uint32_t number, auto change) {
    PortInfo info = fabric.agents.port_info(fabric.port("s1", static_cast<int>(number)));
    info.port_state = LinkState::NoChange;
    info.physical_state = PhysicalState::NoChange;
    change(info);
    const auto answer =
        fabric.set(h1, {.attribute = SmpAttribute::PortInfo, .modifier = number}, {1}, info);
    EXPECT_TRUE(answer);
    return answer ? answer->status() : 0xFFFF;
  }
  [[nodiscard]] PortState state(const char* node, int number) const {
    return fabric.tables.port(fabric.port(node, number)).state;
  }
  [[nodiscard]] std::size_t traps(std::uint16_t number) const {
    std::size_t count = 0;
    for (const Delivered& each : fabric.delivered) {
      count += each.header().method == wire::MadMethod::Trap &&
                       each.data<wire::Notice>().trap_number == number
                   ? 1
                   : 0;
    }
    return count;
  }

  ManagedFabric fabric{star()};
  testing::PortIndex h1 = fabric.port("h1", 1);
};

TEST_F(LinkTraining, PullingACableTakesBothEndsDownAndTellsTheSubnetManager) {
  fabric.agents.set_plugged(fabric.port("h2", 1), false, fabric.now);
  fabric.run();
  EXPECT_EQ(state("s1", 2), PortState::Down);
  EXPECT_EQ(state("h2", 1), PortState::Down);
  EXPECT_EQ(fabric.agents.port_info(fabric.port("s1", 2)).physical_state, PhysicalState::Polling);
  EXPECT_EQ(fabric.counters.ports[fabric.port("s1", 2).value()].link_downed, 1U);
  EXPECT_EQ(traps(128), 1U);
  EXPECT_TRUE(fabric.agents.switch_info(fabric.node("s1")).port_state_change);
  EXPECT_FALSE(fabric.ask(h1, {.attribute = SmpAttribute::NodeInfo}, {1, 2}));
  EXPECT_EQ(fabric.network.counters().link_down, 1U);

  fabric.agents.set_plugged(fabric.port("s1", 2), true, fabric.now);
  EXPECT_EQ(state("h2", 1), PortState::Initialize);
  EXPECT_EQ(fabric.tables.port(fabric.port("h2", 1)).lid, Lid{2});  // the LID is kept
}

TEST_F(LinkTraining, ADisabledPortStaysDownUntilItMayPollAgain) {
  EXPECT_EQ(set_port(2, [](PortInfo& info) { info.physical_state = PhysicalState::Disabled; }), 0);
  EXPECT_EQ(state("h2", 1), PortState::Down);
  EXPECT_EQ(fabric.port_info(h1, {1}, 2).physical_state, PhysicalState::Disabled);
  fabric.agents.set_plugged(fabric.port("h2", 1), false, fabric.now);
  fabric.agents.set_plugged(fabric.port("h2", 1), true, fabric.now);
  EXPECT_EQ(state("h2", 1), PortState::Down);
  EXPECT_EQ(set_port(2, [](PortInfo& info) { info.physical_state = PhysicalState::Polling; }), 0);
  EXPECT_EQ(state("h2", 1), PortState::Initialize);
  EXPECT_EQ(state("s1", 2), PortState::Initialize);
}

TEST_F(LinkTraining, APortSetDownTrainsAgain) {
  EXPECT_EQ(set_port(2, [](PortInfo& info) { info.port_state = LinkState::Down; }), 0);
  EXPECT_EQ(state("s1", 2), PortState::Initialize);
  EXPECT_EQ(fabric.counters.ports[fabric.port("h2", 1).value()].link_downed, 1U);
}

TEST_F(LinkTraining, TheAnswerLeavesBeforeTheLinkThatItTakes) {
  EXPECT_EQ(set_port(1, [](PortInfo& info) { info.physical_state = PhysicalState::Disabled; }), 0);
  EXPECT_EQ(state("h1", 1), PortState::Down);
}

TEST_F(LinkTraining, WidthAndSpeedCountAfterTheNextTraining) {
  EXPECT_EQ(set_port(2,
                     [](PortInfo& info) {
                       info.link_width_enabled = 1;
                       info.link_speed_enabled = 3;
                       info.link_speed_ext_enabled = 0x1E;  // none
                     }),
            0);
  EXPECT_EQ(fabric.port_info(h1, {1}, 2).link_width_active, 2);
  EXPECT_EQ(set_port(2, [](PortInfo& info) { info.port_state = LinkState::Down; }), 0);
  const PortInfo slow = fabric.port_info(h1, {1}, 2);
  EXPECT_EQ(slow.link_width_active, 1);
  EXPECT_EQ(slow.link_speed_active, 2);
  EXPECT_EQ(slow.link_speed_ext_active, 0);
  EXPECT_EQ(fabric.tables.port(fabric.port("h2", 1)).rate_mbps, 5'000U);
  EXPECT_EQ(set_port(2,
                     [](PortInfo& info) {
                       info.link_width_enabled = 0xFF;
                       info.link_speed_enabled = 0xF;
                       info.link_speed_ext_enabled = 0x1F;
                       info.port_state = LinkState::Down;
                     }),
            0);
  EXPECT_EQ(fabric.tables.port(fabric.port("h2", 1)).rate_mbps, 0U);  // as cabled
  EXPECT_EQ(set_port(2, [](PortInfo& info) { info.link_width_enabled = 8; }),
            wire::kMadStatusInvalidField);
}

TEST_F(LinkTraining, StatesSetByTheSubnetManagerRaiseNoTrap) {
  wire::SwitchInfo info = fabric.agents.switch_info(fabric.node("s1"));
  static_cast<void>(fabric.set(h1, {.attribute = SmpAttribute::SwitchInfo}, {1}, info));
  fabric.tables.set_state(fabric.port("s1", 2), PortState::Armed);
  EXPECT_EQ(set_port(2, [](PortInfo& wanted) { wanted.port_state = LinkState::Active; }), 0);
  EXPECT_FALSE(fabric.agents.switch_info(fabric.node("s1")).port_state_change);
  EXPECT_EQ(traps(128), 0U);
}

TEST_F(LinkTraining, ANewSubnetManagerGetsATrap) {  // trap 144
  fabric.agents.set_is_sm(fabric.port("h2", 1), true, fabric.now);
  fabric.run();
  EXPECT_EQ(traps(144), 1U);
  EXPECT_TRUE(fabric.port_info(h1, {1, 2}, 1).capability_mask.has(wire::PortCapability::IsSm));
}

TEST_F(LinkTraining, AnAgentOfDeviceManagementIsACapabilityWhileItAnswers) {  // trap 144
  const auto is_supported = [&] {
    return fabric.port_info(h1, {1, 2}, 1)
        .capability_mask.has(wire::PortCapability::IsDeviceManagementSupported);
  };
  EXPECT_FALSE(is_supported());
  fabric.agents.set_is_device_management(fabric.port("h2", 1), true, fabric.now);
  fabric.agents.set_is_device_management(fabric.port("h2", 1), true, fabric.now);
  fabric.run();
  EXPECT_EQ(traps(144), 1U);
  EXPECT_TRUE(is_supported());
  fabric.agents.set_is_device_management(fabric.port("h2", 1), false, fabric.now);
  EXPECT_FALSE(is_supported());
}

}  // namespace
}  // namespace weft::agents
