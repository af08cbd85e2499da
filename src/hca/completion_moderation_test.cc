#include <gtest/gtest.h>

#include "hca/completion_queue.h"

namespace weft::hca {
namespace {

constexpr Duration kPeriod = Duration::microseconds(100);

class CountedEvents final : public HcaEvents {
 public:
  void completion_event(CompletionQueue&) override { ++events; }
  void completion_event_held(CompletionQueue&, Duration period) override {
    ++periods;
    newest_period = period;
  }
  void async_event(const AsyncEvent&) override {}
  [[nodiscard]] bool explains_errors() const override { return false; }
  void explain(std::string_view) override {}

  int events{};
  int periods{};
  Duration newest_period;
};

class CompletionModerated : public ::testing::Test {
 protected:
  CompletionModerated() { cq_.moderate({.count = 3, .period = kPeriod}); }
  void push(WcStatus status = WcStatus::Success) {
    Wc wc;
    wc.status = status;
    ASSERT_TRUE(cq_.push(wc, false));
  }
  void poll_all() {
    Wc wc;
    while (cq_.poll({&wc, 1}) != 0) {
    }
  }

  CountedEvents told_;
  CompletionQueue cq_{8, LockPolicy::None, told_};
};

TEST_F(CompletionModerated, TellsOfSoManyAtOnce) {
  cq_.arm(false);
  push();
  push();
  EXPECT_EQ(told_.events, 0);
  EXPECT_EQ(told_.periods, 1) << "the first of them starts it";
  EXPECT_EQ(told_.newest_period, kPeriod);
  EXPECT_EQ(cq_.size(), 2U) << "polling is not held up";
  push();
  EXPECT_EQ(told_.events, 1);
  push();
  EXPECT_EQ(told_.events, 1) << "an arm is good for one event";
}

TEST_F(CompletionModerated, TellsOfFewerWhenThePeriodEnds) {
  cq_.arm(false);
  push();
  cq_.end_period();
  EXPECT_EQ(told_.events, 1);
  cq_.end_period();
  EXPECT_EQ(told_.events, 1);
  poll_all();
  cq_.arm(false);
  push();
  poll_all();
  cq_.end_period();
  EXPECT_EQ(told_.events, 1) << "nothing is left to tell of";
  push();
  cq_.end_period();
  EXPECT_EQ(told_.events, 2) << "and it is armed still";
}

TEST_F(CompletionModerated, CountsWhatCameBeforeTheArm) {
  push();
  push();
  cq_.arm(false);
  EXPECT_EQ(told_.events, 0);
  EXPECT_EQ(told_.periods, 1);
  push();
  EXPECT_EQ(told_.events, 1);
  poll_all();
  for (int i = 0; i < 3; ++i) {
    push();
  }
  cq_.arm(false);
  EXPECT_EQ(told_.events, 2);
}

TEST_F(CompletionModerated, NeitherFailuresNorAFullCqWait) {
  cq_.arm(false);
  push(WcStatus::WorkRequestFlushed);
  EXPECT_EQ(told_.events, 1);
  push(WcStatus::WorkRequestFlushed);
  cq_.arm(false);
  EXPECT_EQ(told_.events, 2);
  poll_all();
  cq_.moderate({.count = 100, .period = {}});
  cq_.arm(false);
  for (int i = 0; i < 7; ++i) {
    push();
  }
  EXPECT_EQ(told_.events, 2);
  EXPECT_EQ(told_.periods, 0) << "without a period it ends by the count alone";
  push();
  EXPECT_EQ(told_.events, 3);
}

TEST_F(CompletionModerated, EndsWithItsRule) {
  cq_.arm(false);
  push();
  cq_.moderate({});
  EXPECT_EQ(told_.events, 1);
  poll_all();
  cq_.arm(false);
  push();
  EXPECT_EQ(told_.events, 2);
}

}  // namespace
}  // namespace weft::hca
