#include "host/maintenance.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "host/testing/local_process.h"

namespace weft::host {
namespace {

using hca::WrOpcode;
using testing::LocalProcess;

constexpr std::uint8_t kTimeout = 8;  // 1 ms
constexpr std::uint8_t kNoRetries = 0;

/// A QP whose retry timer ends it as soon as an expiry counts.
class RetryTimer : public ::testing::Test {
 protected:
  RetryTimer() {
    process_.connect(a_, b_.number(), kTimeout, kNoRetries);
    process_.connect(b_, a_.number());
    process_.post(a_, WrOpcode::RdmaWrite);
  }
  /// Lets the timer expire, and handles it, several times.
  void expire() {
    for (int round = 0; round < 10; ++round) {
      std::this_thread::sleep_for(std::chrono::milliseconds{3});
      process_.parts.maintenance.run(true);
    }
  }
  [[nodiscard]] hca::QpState state() const { return a_.query().state; }

  LocalProcess process_;
  hca::Qp& a_ = process_.make_qp();
  hca::Qp& b_ = process_.make_qp();
};

TEST_F(RetryTimer, DoesNotCountWhileThePeerHasNotReadTheRequest) {
  expire();
  EXPECT_EQ(state(), hca::QpState::Rts);
  process_.deliver();
  EXPECT_EQ(process_.completions().size(), 1U);
}

TEST_F(RetryTimer, DoesNotCountWhileTheAnswerIsUnread) {
  process_.parts.receiver.take_requests(process_.lane_of(a_), RecordFilter::All);
  expire();
  EXPECT_EQ(state(), hca::QpState::Rts);
  process_.deliver();
  EXPECT_EQ(process_.completions().size(), 1U);
}

TEST_F(RetryTimer, CountsOnceThePeerHasReadAndNotAnswered) {
  hca::QpAttributes reset;
  reset.state = hca::QpState::Reset;
  ASSERT_TRUE(b_.modify(reset, hca::QpAttribute::State));
  process_.parts.receiver.take_requests(process_.lane_of(a_), RecordFilter::All);
  expire();
  EXPECT_EQ(state(), hca::QpState::Err);
  const auto completions = process_.completions();
  ASSERT_EQ(completions.size(), 1U);
  EXPECT_EQ(completions[0].status, hca::WcStatus::RetryExceeded);
}

TEST(Maintenance, IsNeededWhileQpsWait) {
  LocalProcess process;
  hca::Qp& a = process.make_qp();
  hca::Qp& b = process.make_qp();
  process.connect(a, b.number());
  process.connect(b, a.number());
  EXPECT_FALSE(process.parts.maintenance.is_needed());
  process.post(a, WrOpcode::RdmaWrite, 1U << 16);
  process.post(a, WrOpcode::RdmaWrite, 1U << 16);
  EXPECT_TRUE(process.parts.maintenance.is_needed());
  for (int round = 0; round < 100 && process.cq->size() < 2; ++round) {
    process.deliver();
    process.parts.maintenance.run(false);
  }
  EXPECT_EQ(process.completions().size(), 2U);
  EXPECT_FALSE(process.parts.maintenance.is_needed());
}

}  // namespace
}  // namespace weft::host
