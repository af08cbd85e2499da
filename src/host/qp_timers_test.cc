#include "host/qp_timers.h"

#include <gtest/gtest.h>

#include "host/testing/local_process.h"

namespace weft::host {
namespace {

using testing::LocalProcess;

class Timers : public ::testing::Test {
 protected:
  Timers() {
    process_.connect(a_, b_.number());
    process_.connect(b_, a_.number());
  }

  LocalProcess process_;
  hca::Qp& a_ = process_.make_qp();
  hca::Qp& b_ = process_.make_qp();
  QpTimers& timers_ = process_.parts.timers;
};

TEST_F(Timers, OfAQpWithoutADeadlineAreNotArmed) {
  timers_.arm(LocalProcess::state_of(a_));
  EXPECT_EQ(timers_.earliest(), Instant::never());
}

TEST_F(Timers, AreDueOnceAndMayBeArmedAgain) {
  process_.post(a_, hca::WrOpcode::RdmaWrite);
  const Instant deadline = a_.deadline();
  ASSERT_NE(deadline, Instant::never());
  EXPECT_EQ(timers_.earliest(), deadline);
  EXPECT_EQ(timers_.take_due(deadline - Duration::microseconds(1)), nullptr);
  EXPECT_EQ(timers_.take_due(deadline), &LocalProcess::state_of(a_));
  EXPECT_EQ(timers_.take_due(deadline), nullptr);
  timers_.arm(LocalProcess::state_of(a_));
  EXPECT_EQ(timers_.earliest(), deadline);
}

TEST_F(Timers, StayWhereTheyAreWhenTheDeadlineMovesIntoTheFuture) {
  process_.post(a_, hca::WrOpcode::RdmaWrite);
  const Instant armed = timers_.earliest();
  process_.deliver();
  EXPECT_EQ(a_.deadline(), Instant::never()) << "it was answered";
  timers_.arm(LocalProcess::state_of(a_));
  EXPECT_EQ(timers_.earliest(), armed);
  timers_.remove(LocalProcess::state_of(a_));
  EXPECT_EQ(timers_.earliest(), Instant::never());
}

}  // namespace
}  // namespace weft::host
