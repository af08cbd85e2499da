#include "host/refusals.h"

#include <gtest/gtest.h>

namespace weft::host {
namespace {

using uabi::RecordFault;

TEST(Refusals, TellOfALieAtOnceAndThenOnceASecond) {
  Refusals refusals;
  const Instant start{Duration::seconds(5)};
  EXPECT_EQ(refusals.count(RecordFault::ForgedQpn, start), 1U);
  EXPECT_EQ(refusals.count(RecordFault::ForgedQpn, start), std::nullopt);
  EXPECT_EQ(refusals.count(RecordFault::ManagementQpn, start), 1U);
  EXPECT_EQ(refusals.count(RecordFault::ForgedQpn, start + Refusals::kPause), 3U);
}

TEST(Refusals, TellOfACorruptRingOnce) {
  Refusals refusals;
  EXPECT_EQ(refusals.count(RecordFault::CorruptRing, Instant{}), 1U);
  for (int i = 1; i < 5; ++i) {
    EXPECT_FALSE(refusals.count(RecordFault::CorruptRing, Instant{Duration::seconds(i)}));
  }
}

TEST(Refusals, SayNothingOfWhatAnHonestPeerLeavesBehind) {
  Refusals refusals;
  const Instant start{Duration::seconds(5)};
  for (std::uint64_t i = 1; i < Refusals::kLeftovers; ++i) {
    ASSERT_FALSE(refusals.count(RecordFault::NoSuchQp, start));
  }
  EXPECT_EQ(refusals.count(RecordFault::NoSuchQp, start), Refusals::kLeftovers);
}

}  // namespace
}  // namespace weft::host
