#include "fabric/link_model.h"

#include <gtest/gtest.h>

namespace weft::fabric {
namespace {

Instant at(std::int64_t ns) { return Instant{Duration::nanoseconds(ns)}; }

TEST(LinkModel, APacketTakesItsBitsOverTheRate) {
  EXPECT_EQ(LinkRate{8'000}.duration(1000), Duration::microseconds(1));
  EXPECT_EQ(LinkRate{100'000}.duration(1), Duration::nanoseconds(1));  // rounded up from 0.08
  EXPECT_EQ(LinkRate{}.duration(1'000'000), Duration{});
}

TEST(LinkModel, PacketsLeaveOneAfterTheOtherAndArriveAfterTheDelay) {
  DepartureClock clock;
  const Duration delay = Duration::nanoseconds(500);
  const Transit first = clock.reserve(at(100), 1000, LinkRate{8'000}, delay);
  EXPECT_EQ(first.starts, at(100));
  EXPECT_EQ(first.departs, at(1100));
  EXPECT_EQ(first.arrives, at(1600));
  const Transit second = clock.reserve(at(200), 1000, LinkRate{8'000}, delay);
  EXPECT_EQ(second.starts, at(1100));
  EXPECT_EQ(second.arrives, at(2600));
  const Transit later = clock.reserve(at(9000), 1000, LinkRate{8'000}, delay);
  EXPECT_EQ(later.starts, at(9000));
}

TEST(LinkModel, WithoutARateOnlyTheDelayCounts) {
  DepartureClock clock;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(clock.reserve(at(10), 4096, LinkRate{}, Duration::nanoseconds(7)).arrives, at(17));
  }
}

TEST(LinkModel, AClockSetAbsurdlyFarAheadIsIgnored) {
  DepartureClock clock;
  (void)clock.reserve(at(0) + Duration::seconds(3600), 1, LinkRate{1}, Duration{});
  EXPECT_EQ(clock.reserve(at(0), 1000, LinkRate{8'000}, Duration{}).starts, at(0));
}

TEST(HeadOfQueue, DiscardsOnceTheLifetimeIsOver) {  // 4.096 us times 2^n
  const HeadOfQueueLifetime life{1};
  EXPECT_EQ(life.deadline(at(1000)), at(1000 + 8192));
  EXPECT_FALSE(life.must_discard(at(1000), at(1000 + 8191)));
  EXPECT_TRUE(life.must_discard(at(1000), at(1000 + 8192)));
}

TEST(HeadOfQueue, TwentyAndAboveIsWithoutLimit) {
  for (const std::uint8_t exponent : {std::uint8_t{20}, std::uint8_t{31}}) {
    EXPECT_FALSE(
        HeadOfQueueLifetime{exponent}.must_discard(at(0), at(0) + Duration::seconds(99'999)));
    EXPECT_EQ(HeadOfQueueLifetime{exponent}.deadline(at(5)), Instant::never());
  }
  EXPECT_FALSE(HeadOfQueueLifetime{19}.is_infinite());
}

}  // namespace
}  // namespace weft::fabric
