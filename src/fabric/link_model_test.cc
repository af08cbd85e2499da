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
  const HeadOfQueueLife life{1};
  EXPECT_EQ(life.deadline(at(1000)), at(1000 + 8192));
  EXPECT_FALSE(life.must_discard(at(1000), at(1000 + 8191)));
  EXPECT_TRUE(life.must_discard(at(1000), at(1000 + 8192)));
}

TEST(HeadOfQueue, TwentyAndAboveIsWithoutLimit) {
  for (const std::uint8_t exponent : {std::uint8_t{20}, std::uint8_t{31}}) {
    EXPECT_FALSE(HeadOfQueueLife{exponent}.must_discard(at(0), at(0) + Duration::seconds(99'999)));
    EXPECT_EQ(HeadOfQueueLife{exponent}.deadline(at(5)), Instant::never());
  }
  EXPECT_FALSE(HeadOfQueueLife{19}.is_infinite());
}

TEST(Faults, HappenAboutAsOftenAsTheRuleSays) {
  FaultRule rule;
  rule.loss_ppm = 10'000;
  rule.duplication_ppm = 20'000;
  rule.corruption_ppm = 30'000;
  rule.reordering_ppm = 40'000;
  rule.delay_ppm = 50'000;
  rule.reordering_window = Duration::microseconds(5);
  rule.extra_delay = Duration::microseconds(50);
  Random random{1};
  int lost = 0;
  int duplicated = 0;
  int corrupted = 0;
  int reordered = 0;
  constexpr int kPackets = 100'000;
  for (int i = 0; i < kPackets; ++i) {
    const FaultDecision decision = decide(rule, random);
    lost += decision.lost ? 1 : 0;
    duplicated += decision.duplicated ? 1 : 0;
    corrupted += decision.corrupted ? 1 : 0;
    reordered += decision.reordered ? 1 : 0;
    EXPECT_LE(decision.held_back, Duration::microseconds(55));
    EXPECT_FALSE(decision.lost && (decision.duplicated || decision.corrupted));
    EXPECT_TRUE(!decision.reordered || decision.held_back > Duration{});
  }
  EXPECT_NEAR(lost, kPackets / 100, 150);
  EXPECT_NEAR(duplicated, kPackets * 2 / 100, 200);
  EXPECT_NEAR(corrupted, kPackets * 3 / 100, 250);
  EXPECT_NEAR(reordered, kPackets * 4 / 100, 300);
}

TEST(Faults, ReplayFromTheSeedAndStayInStepWhenARuleChanges) {
  FaultRule rule;
  rule.loss_ppm = 100'000;
  rule.corruption_ppm = 100'000;
  FaultRule quiet;
  Random one{5};
  Random same{5};
  Random other{5};
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(decide(rule, one), decide(rule, same));
    EXPECT_EQ(decide(quiet, other), FaultDecision{});
  }
  EXPECT_EQ(one(), other());  // as many draws, whatever happened
}

TEST(Faults, AlwaysAndNeverAreExact) {
  FaultRule rule;
  EXPECT_TRUE(rule.is_quiet());
  rule.loss_ppm = FaultRule::kAlways;
  EXPECT_FALSE(rule.is_quiet());
  Random random{2};
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(decide(rule, random).lost);
  }
  EXPECT_TRUE(rule.validate());
  rule.delay_ppm = FaultRule::kAlways + 1;
  EXPECT_FALSE(rule.validate());
}

}  // namespace
}  // namespace weft::fabric
