#include "host/verbs_objects.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>

#include "host/testing/local_process.h"

namespace weft::host {
namespace {

using hca::Flow;
using hca::QpAttribute;
using hca::QpState;
using hca::WcStatus;
using hca::WrOpcode;
using testing::LocalProcess;

/// Nobody has looked at the ring in which there are packets for a QP that ends. An adapter would
/// have handled them when they came.
class EndingQp : public ::testing::Test {
 protected:
  EndingQp() {
    process_.connect(a_, b_.number());
    process_.connect(b_, a_.number());
    process_.receive(b_);
    process_.post(a_, WrOpcode::Send);
  }
  void deliver_request() {
    process_.parts.receiver.take_requests(process_.lane_of(b_), RecordFilter::All);
  }
  void modify(hca::Qp& qp, QpState state) {
    hca::QpAttributes to;
    to.state = state;
    EXPECT_TRUE(process_.parts.objects.modify_qp(qp, to, QpAttribute::State));
  }
  void expect_that_all_succeeded(std::size_t count) {
    const auto completions = process_.completions();
    EXPECT_EQ(completions.size(), count);
    EXPECT_TRUE(std::ranges::all_of(completions, [](const hca::Wc& completion) {
      return completion.status == WcStatus::Success;
    }));
  }

  LocalProcess process_;
  hca::Qp& a_ = process_.make_qp();
  hca::Qp& b_ = process_.make_qp();
};

TEST_F(EndingQp, HasCompletedWhatItsPeerAnswered) {
  deliver_request();
  ASSERT_TRUE(process_.lane_of(a_).in(Flow::Response).has_record());
  modify(a_, QpState::Err);
  expect_that_all_succeeded(2);
}

TEST_F(EndingQp, HasAnsweredWhatItsPeerAsked) {
  ASSERT_TRUE(process_.lane_of(b_).in(Flow::Request).has_record());
  modify(b_, QpState::Err);
  process_.deliver();
  expect_that_all_succeeded(2);
}

/// The completions of a QP that is reset are not seen any more; those of its peer are.
TEST_F(EndingQp, HasAnsweredBeforeItIsReset) {
  modify(b_, QpState::Reset);
  process_.deliver();
  const auto completions = process_.completions();
  ASSERT_EQ(completions.size(), 1U);
  EXPECT_EQ(completions.front().qpn, a_.number());
  EXPECT_EQ(completions.front().status, WcStatus::Success);
}

TEST_F(EndingQp, HasAnsweredBeforeItIsDestroyed) {
  process_.destroy(b_);
  process_.deliver();
  const auto completions = process_.completions();
  ASSERT_EQ(completions.size(), 1U);
  EXPECT_EQ(completions.front().qpn, a_.number());
  EXPECT_EQ(completions.front().status, WcStatus::Success);
}

}  // namespace
}  // namespace weft::host
