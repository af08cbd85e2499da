#include "node/port_change.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fabric/topology.h"
#include "node/fabric.h"
#include "node/testing/settle.h"

namespace weft::node {
namespace {

using fabric::PortState;
using ::testing::HasSubstr;

TEST(PortChange, ReadsWordsInAnyOrder) {
  const auto change = read_port_change("speed=sdr,ddr  width=1x,4x");
  ASSERT_TRUE(change) << change.error().reason;
  EXPECT_EQ(change->settings.width_enabled, 3);
  EXPECT_EQ(change->settings.speed_enabled, 3);
  EXPECT_EQ(change->settings.extended_enabled, 0x1E);
  EXPECT_EQ(change->settings.physical, wire::PhysicalState::Polling);
  EXPECT_EQ(read_port_change("unplug")->is_plugged, false);
  EXPECT_EQ(read_port_change("width=all down")->settings.physical, wire::PhysicalState::NoChange);
  EXPECT_EQ(read_port_change("speed=edr")->settings.extended_enabled, 2);
}

TEST(PortChange, SaysWhichWordsThereAre) {
  for (const char* text :
       {"", "  ", "off", "width=", "width=3x", "speed=", "speed=fast", "width"}) {
    const auto refused = read_port_change(text);
    ASSERT_FALSE(refused) << text;
    EXPECT_THAT(refused.error().reason, HasSubstr("width=1x"));
  }
}

/// The fat tree of 8 hosts, whose leaf s1 has two uplinks.
class ChangedPorts : public ::testing::Test {
 protected:
  void make(bool has_subnet_manager) {
    fabric_ = std::move(*Fabric::create(*fabric::generate_fat_tree(4, 2), Instant{},
                                        {.has_subnet_manager = has_subnet_manager}));
  }
  Result<void> change(std::string_view name, std::string_view words) {
    const auto changed = fabric_->change_port(port(name), *read_port_change(words), now_);
    settle();
    return changed;
  }
  fabric::PortIndex port(std::string_view name) { return fabric_->find_ports(name)->front(); }
  PortState state(std::string_view name) { return fabric_->builder().port(port(name)).state; }

  void settle() {
    testing::settle(*fabric_, now_);
    now_ = now_ + Duration::seconds(2);
  }

  std::unique_ptr<Fabric> fabric_;
  Instant now_{};
};

TEST_F(ChangedPorts, TakeRoutesWithThem) {
  make(true);
  const Lid h8 = fabric_->builder().port(port("h8:1")).lid;
  const fabric::NodeIndex s1 = fabric_->builder().port(port("s1:3")).node;
  const PortNumber before = fabric_->builder().forward(s1, h8);
  const std::string uplink = "s1:" + std::to_string(before.value());
  ASSERT_TRUE(change(uplink, "unplug"));
  EXPECT_EQ(state(uplink), PortState::Down);
  EXPECT_NE(fabric_->builder().forward(s1, h8), before);
  ASSERT_TRUE(change(uplink, "plug"));
  EXPECT_EQ(state(uplink), PortState::Active);
  EXPECT_EQ(fabric_->builder().forward(s1, h8), before);
}

TEST_F(ChangedPorts, WaitInInitializeWhenThereIsNoSubnetManager) {
  make(false);
  EXPECT_EQ(state("h1:1"), PortState::Initialize);
  EXPECT_EQ(fabric_->builder().port(port("h1:1")).lid, Lid{});
  ASSERT_TRUE(change("h1:1", "arm"));
  EXPECT_EQ(state("h1:1"), PortState::Armed);
  ASSERT_TRUE(change("h1:1", "reset"));
  EXPECT_EQ(state("h1:1"), PortState::Initialize);
  EXPECT_EQ(state("s1:1"), PortState::Initialize);
}

TEST_F(ChangedPorts, AreEnabledOnlyWhenTheyWereDisabled) {
  make(false);
  ASSERT_TRUE(change("h1:1", "arm"));
  ASSERT_TRUE(change("h1:1", "enable"));
  EXPECT_EQ(state("h1:1"), PortState::Armed);  // nothing happened
  ASSERT_TRUE(change("h1:1", "disable"));
  EXPECT_EQ(state("s1:1"), PortState::Down);
  ASSERT_TRUE(change("h1:1", "enable"));
  EXPECT_EQ(state("s1:1"), PortState::Initialize);
}

TEST_F(ChangedPorts, StayDownAsLongAsAFaultOrAPulledCableSaysSo) {
  make(true);
  const auto fault = fabric_->add_fault(*fabric::read_fault("down link=h1:1"), Instant{});
  ASSERT_TRUE(fault);
  ASSERT_TRUE(change("h1:1", "unplug"));
  ASSERT_TRUE(fabric_->faults().remove(*fault, now_));
  settle();
  EXPECT_EQ(state("h1:1"), PortState::Down);
  ASSERT_TRUE(change("s1:1", "plug"));  // the other end of the same cable
  EXPECT_EQ(state("h1:1"), PortState::Active);
}

}  // namespace
}  // namespace weft::node
