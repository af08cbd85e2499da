#include "core/cq_linger.h"

#include <gtest/gtest.h>

namespace weft::core {
namespace {

constexpr Duration kLongest = Duration::microseconds(50);

class CqLingerTest : public ::testing::Test {
 protected:
  bool finds() { return linger_.polls_on(true, now_); }
  bool finds_nothing() { return linger_.polls_on(false, now_); }
  void wait(Duration span) { now_ = now_ + span; }
  /// One completion, and nothing until it is armed: whether it was polled meanwhile.
  bool lingers_in_vain() {
    const bool lingers = finds();
    wait(kLongest);
    EXPECT_FALSE(finds_nothing());
    return lingers;
  }

  Instant now_{Instant{} + Duration::seconds(1)};
  CqLinger linger_{kLongest};
};

TEST_F(CqLingerTest, PollsOnForATimeAfterTheLastCompletion) {
  EXPECT_FALSE(finds_nothing()) << "nothing has come yet";
  EXPECT_TRUE(finds());
  wait(kLongest - Duration::nanoseconds(1));
  EXPECT_TRUE(finds_nothing());
  EXPECT_TRUE(finds());
  wait(kLongest - Duration::nanoseconds(1));
  EXPECT_TRUE(finds_nothing());
  wait(Duration::nanoseconds(1));
  EXPECT_FALSE(finds_nothing());
  EXPECT_FALSE(finds_nothing());
}

TEST_F(CqLingerTest, DoesSoAtOnceAgainWhereItFoundSomething) {
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(finds());
    EXPECT_TRUE(finds());
    wait(kLongest);
    EXPECT_FALSE(finds_nothing());
  }
}

TEST_F(CqLingerTest, DoesSoEverMoreRarelyWhereItFoundNothing) {
  unsigned lingered = 0;
  for (int i = 0; i < 1'000; ++i) {
    lingered += lingers_in_vain() ? 1 : 0;
  }
  EXPECT_GT(lingered, 15U);
  EXPECT_LT(lingered, 25U) << "after 1, 2, 4 ... 64 others each time";
}

TEST_F(CqLingerTest, DoesSoOftenAgainOnceItFoundSomething) {
  for (int i = 0; i < 1'000; ++i) {
    static_cast<void>(lingers_in_vain());
  }
  int until_it_lingers = 0;
  while (!finds()) {
    ++until_it_lingers;
    EXPECT_LE(until_it_lingers, 64);
  }
  EXPECT_TRUE(finds());
  wait(kLongest);
  EXPECT_FALSE(finds_nothing());
  EXPECT_TRUE(lingers_in_vain());
  EXPECT_FALSE(lingers_in_vain());
  EXPECT_TRUE(lingers_in_vain());
}

TEST(CqLingerTurnedOff, NeverPollsOn) {
  CqLinger linger{Duration{}};
  EXPECT_FALSE(linger.polls_on(true, Instant{}));
  EXPECT_FALSE(linger.polls_on(true, Instant{}));
  EXPECT_FALSE(linger.polls_on(false, Instant{}));
}

}  // namespace
}  // namespace weft::core
