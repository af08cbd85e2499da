#include "programs/loop/deadline_timer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>

#include "os/clock.h"

namespace weft::programs {
namespace {

constexpr Duration kSoon = Duration::milliseconds(5);
constexpr Duration kLater = Duration::milliseconds(40);
constexpr std::chrono::seconds kLongest{20};  // policy: on a busy machine

class DeadlineTimerTest : public ::testing::Test {
 protected:
  DeadlineTimerTest() {
    timer_ = std::make_unique<DeadlineTimer>(loop_, [this] {
      ++told_;
      told_at_ = os::now();
    });
  }
  /// Until nothing is armed any more.
  void run() {
    loop_.restart();
    loop_.run_for(kLongest);
    EXPECT_TRUE(loop_.stopped());
  }

  asio::io_context loop_;
  std::unique_ptr<DeadlineTimer> timer_;
  const Instant start_ = os::now();
  int told_{};
  Instant told_at_{};
};

TEST_F(DeadlineTimerTest, TellsOnceThatTheDeadlineHasCome) {
  timer_->set(start_ + kSoon);
  run();
  EXPECT_EQ(told_, 1);
  EXPECT_GE(told_at_, start_ + kSoon);
}

TEST_F(DeadlineTimerTest, OneThatMovedToLaterIsNotToldBefore) {
  timer_->set(start_ + kSoon);
  timer_->set(start_ + kLater);
  run();
  EXPECT_EQ(told_, 1);
  EXPECT_GE(told_at_, start_ + kLater);
}

TEST_F(DeadlineTimerTest, OneThatMovedToEarlierIsNotToldTwice) {
  timer_->set(start_ + Duration::seconds(3600));
  timer_->set(start_ + kLater);
  timer_->set(start_ + kSoon);
  run();
  EXPECT_EQ(told_, 1);
  EXPECT_GE(told_at_, start_ + kSoon);
}

TEST_F(DeadlineTimerTest, OneThatIsPastIsToldByTheLoop) {
  timer_->set(start_ - kSoon);
  EXPECT_EQ(told_, 0);
  run();
  EXPECT_EQ(told_, 1);
}

TEST_F(DeadlineTimerTest, OneThatWasTakenBackIsNotTold) {
  timer_->set(start_ + kSoon);
  timer_->set(Instant::never());
  run();
  EXPECT_EQ(told_, 0);
}

TEST_F(DeadlineTimerTest, MaySetTheNextOneWhileItTells) {
  std::unique_ptr<DeadlineTimer> again;
  int left = 3;
  again = std::make_unique<DeadlineTimer>(loop_, [&] {
    if (--left != 0) {
      again->set(os::now() + kSoon);
    }
  });
  again->set(start_);
  run();
  EXPECT_EQ(left, 0);
}

TEST_F(DeadlineTimerTest, ThatIsGoneTellsNothing) {
  timer_->set(start_);
  timer_.reset();
  run();
  EXPECT_EQ(told_, 0);
}

}  // namespace
}  // namespace weft::programs
