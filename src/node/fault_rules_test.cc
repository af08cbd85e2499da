#include "node/fault_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fabric/faults.h"
#include "fabric/topology.h"
#include "node/fabric.h"
#include "node/testing/settle.h"

namespace weft::node {
namespace {

using ::testing::HasSubstr;

class FabricFaults : public ::testing::Test {
 protected:
  std::uint32_t add(std::string_view text, Instant now = Instant{}) {
    const auto number = fabric_->add_fault(*fabric::read_fault(text), now);
    EXPECT_TRUE(number) << number.error().reason;
    return number.value_or(0);
  }
  std::vector<fabric::FaultRecord> published() {
    image_ = fabric_->next_tables();
    const auto view = fabric::TablesView::open(image_);
    EXPECT_TRUE(view) << view.error().reason;
    return {view->faults().begin(), view->faults().end()};
  }
  fabric::PortIndex port(std::string_view name) { return fabric_->find_ports(name)->front(); }
  fabric::PortState state(std::string_view name) {
    testing::settle(*fabric_, settled_);
    settled_ = settled_ + Duration::seconds(2);
    return fabric_->builder().port(port(name)).state;
  }
  static Instant at(std::int64_t milliseconds) {
    return Instant{Duration::milliseconds(milliseconds)};
  }

  std::unique_ptr<Fabric> fabric_ =
      std::move(*Fabric::create(*fabric::generate_star(3), Instant{}));
  std::vector<std::byte> image_;
  Instant settled_{at(10'000)};  // the subnet manager's time, behind that of all rules
};

TEST_F(FabricFaults, AreOnTheDirectionsThatTheyName) {
  add("drop out=h1:1");
  add("drop in=h1:1");
  add("drop link=h2");
  add("drop");
  const auto records = published();
  ASSERT_EQ(records.size(), 5U);
  EXPECT_EQ(records[0].egress, port("h1:1"));
  EXPECT_EQ(records[1].egress, port("s1:1"));
  EXPECT_EQ(records[4].egress, fabric::kNoPort);
  EXPECT_EQ(records[2].slot, records[3].slot);
  EXPECT_NE(records[0].slot, records[1].slot);
}

TEST_F(FabricFaults, RefuseALinkThatIsNotThere) {
  const auto number = fabric_->add_fault(*fabric::read_fault("drop out=h9:1"), Instant{});
  ASSERT_FALSE(number);
  EXPECT_THAT(number.error().reason, HasSubstr("no cabled port h9:1"));
  EXPECT_TRUE(published().empty());
}

TEST_F(FabricFaults, EndByTimeAndKeepTheirPlaceUntilTheyAreForgotten) {
  const std::uint32_t number = add("drop for=5ms", at(10));
  EXPECT_EQ(fabric_->faults().next_end(), at(15));
  EXPECT_FALSE(fabric_->faults().end_due(at(14)));
  EXPECT_TRUE(fabric_->faults().end_due(at(15)));
  EXPECT_FALSE(fabric_->faults().end_due(at(16)));
  EXPECT_TRUE(published().empty());
  ASSERT_EQ(fabric_->faults().all().size(), 1U);
  EXPECT_TRUE(fabric_->faults().all()[0].has_ended);
  const std::uint32_t other = add("corrupt");
  EXPECT_NE(other, number);
  EXPECT_NE(published().at(0).slot, fabric_->faults().all()[0].slot);
  EXPECT_TRUE(fabric_->faults().remove(number, at(16)));
  EXPECT_THAT(fabric_->faults().remove(number, at(16)).error().reason,
              HasSubstr("weft fault list"));
  EXPECT_EQ(fabric_->faults().all().size(), 1U);
}

TEST_F(FabricFaults, TakeTheCountsOfAnEndedRuleAfterAllOthers) {
  add("corrupt");
  const std::uint32_t ended = add("drop");
  const std::uint32_t slot = fabric_->faults().all().back().slot;
  EXPECT_TRUE(fabric_->faults().remove(ended, at(1)));
  for (std::uint32_t i = 2; i < fabric::kMaxFaultRules; ++i) {
    const std::uint32_t next = add("drop");
    EXPECT_NE(fabric_->faults().all().back().slot, slot);
    EXPECT_TRUE(fabric_->faults().remove(next, at(1)));
  }
  add("drop");  // the first rule lasts
  EXPECT_EQ(fabric_->faults().all().back().slot, slot);
}

TEST_F(FabricFaults, TakeTheWholeLinkDownUntilTheLastOfThemEnds) {
  const std::uint32_t first = add("down out=h1:1 for=5ms", at(0));
  add("down link=h1 for=9ms", at(0));
  EXPECT_TRUE(published().empty());
  EXPECT_EQ(state("h1:1"), fabric::PortState::Down);
  EXPECT_EQ(state("s1:1"), fabric::PortState::Down);
  EXPECT_EQ(state("s1:2"), fabric::PortState::Active);
  EXPECT_TRUE(fabric_->faults().remove(first, at(1)));
  EXPECT_EQ(state("h1:1"), fabric::PortState::Down);
  EXPECT_TRUE(fabric_->faults().end_due(at(9)));
  EXPECT_EQ(state("h1:1"), fabric::PortState::Active);
  EXPECT_EQ(state("s1:1"), fabric::PortState::Active);
}

TEST_F(FabricFaults, OfKindDownWithoutALinkTakeAllDown) {
  add("down");
  EXPECT_EQ(state("s1:3"), fabric::PortState::Down);
  fabric_->faults().remove_all(at(1));
  EXPECT_EQ(state("s1:3"), fabric::PortState::Active);
  EXPECT_TRUE(fabric_->faults().all().empty());
}

TEST_F(FabricFaults, AreSoManyAtMostAndThoseThatHaveEndedMakeRoom) {
  add("drop for=1ms", at(0));
  for (std::uint32_t i = 1; i < fabric::kMaxFaultRules; ++i) {
    add("drop");
  }
  const auto more = *fabric::read_fault("drop");
  EXPECT_TRUE(fabric_->faults().end_due(at(1)));
  EXPECT_TRUE(fabric_->add_fault(more, at(1)));
  const auto refused = fabric_->add_fault(more, at(1));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().reason, HasSubstr("weft fault clear"));
  std::set<std::uint32_t> slots;
  for (const FaultRule& rule : fabric_->faults().all()) {
    slots.insert(rule.slot);
  }
  EXPECT_EQ(slots.size(), fabric::kMaxFaultRules);
}

}  // namespace
}  // namespace weft::node
