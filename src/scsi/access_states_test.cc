#include "scsi/access_states.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "scsi/testing/bench_target.h"

namespace weft::scsi {
namespace {

using testing::bytes;

AccessStates two_groups() {
  AccessStates states;
  states.add_port(PortId{1}, 10);
  states.add_port(PortId{2}, 20);
  return states;
}

TEST(AccessStates, ReportHasOneDescriptorForEachGroup) {  // SPC-4 §6.37, Table 306
  AccessStates states = two_groups();
  ASSERT_TRUE(states.set_state(20, AccessState::Standby, false).has_value());
  const auto expected = bytes({0, 0, 0, 24,   0, 0x8F, 0, 10, 0, 0, 0, 1, 0, 0,
                               0, 1, 2, 0x8F, 0, 20,   0, 2,  0, 1, 0, 0, 0, 2});
  const ParameterData data = states.report(false);
  EXPECT_TRUE(std::ranges::equal(data.octets(), expected));
  EXPECT_EQ(load8(states.report(true).octets(), 4), 0x10);
}

TEST(AccessStates, SetChangesAllGroupsOrNone) {  // SPC-4 §6.45
  AccessStates states = two_groups();
  const auto wrong = states.set_from(bytes({0, 0, 0, 0, 2, 0, 0, 10, 2, 0, 0, 99}));
  ASSERT_FALSE(wrong.has_value());
  EXPECT_EQ(wrong.error().sense.code, SenseCode::InvalidFieldInParameterList);
  EXPECT_EQ(wrong.error().sense.field->octet, 10);
  EXPECT_EQ(states.state(PortId{1}), AccessState::ActiveOptimized);
  EXPECT_FALSE(states.set_from(bytes({0, 0, 0, 0, 0x0F, 0, 0, 10})).has_value());
  EXPECT_FALSE(states.set_from(bytes({0, 0, 0, 0, 1})).has_value());
  EXPECT_TRUE(states.set_from(bytes({0, 0, 0, 0, 2, 0, 0, 10, 1, 0, 0, 20})).value_or(false));
  EXPECT_EQ(states.state(PortId{1}), AccessState::Standby);
  EXPECT_EQ(states.state(PortId{2}), AccessState::ActiveNonOptimized);
}

}  // namespace
}  // namespace weft::scsi
