#include "host/packet_sender.h"

#include <gtest/gtest.h>

#include "host/testing/local_process.h"

namespace weft::host {
namespace {

using hca::Flow;
using hca::WrOpcode;
using testing::LocalProcess;

class PacketsOut : public ::testing::Test {
 protected:
  PacketsOut() {
    process_.connect(a_, b_.number());
    process_.connect(b_, a_.number());
  }
  /// Another QP waits for the lane of `a_`, so that `a_` must wait for its turn.
  void put_another_before() {
    process_.lane_of(a_).queue.join(other_, [] {});
  }
  [[nodiscard]] bool has_request() { return process_.lane_of(a_).in(Flow::Request).has_record(); }

  LocalProcess process_;
  hca::Qp& a_ = process_.make_qp();
  hca::Qp& b_ = process_.make_qp();
  struct Other : QpDriverState {
    ~Other() { station::WaitQueue::leave(*this); }
  } other_;
};

TEST_F(PacketsOut, LieInTheLaneWhenThePostReturns) {
  process_.post(a_, WrOpcode::RdmaWrite);
  EXPECT_TRUE(has_request());
  EXPECT_FALSE(process_.parts.sender.has_waiting());
  EXPECT_LT(process_.parts.timers.earliest(), Instant::never()) << "the retry timer runs";
}

TEST_F(PacketsOut, WaitBehindOthersForTheirLane) {
  other_.qp = &b_;  // it has nothing to send, and leaves the queue at its turn
  put_another_before();
  process_.post(a_, WrOpcode::RdmaWrite);
  EXPECT_FALSE(has_request());
  EXPECT_TRUE(process_.parts.sender.resume_waiting());
  EXPECT_TRUE(has_request());
  EXPECT_FALSE(process_.parts.sender.has_waiting());
}

TEST_F(PacketsOut, WaitForSpaceAndGoOnWhenThereIsSome) {
  constexpr std::uint32_t kBytes = 1U << 16;  // as much as the ring holds, and more
  process_.post(a_, WrOpcode::RdmaWrite, kBytes);
  process_.post(a_, WrOpcode::RdmaWrite, kBytes);
  EXPECT_TRUE(process_.parts.sender.has_waiting());
  EXPECT_FALSE(process_.parts.sender.resume_waiting()) << "there is no space";
  for (int round = 0; round < 100 && process_.cq->size() < 2; ++round) {
    process_.deliver();
    process_.parts.sender.resume_waiting();
  }
  EXPECT_EQ(process_.completions().size(), 2U);
  EXPECT_FALSE(process_.parts.sender.has_waiting());
}

/// The last messages of a program that ends before its thread had a CPU.
TEST_F(PacketsOut, AreFlushedBeforeTheirQpIsDestroyed) {
  constexpr unsigned kSends = 20;
  for (unsigned i = 0; i < 2 * kSends; ++i) {
    process_.receive(b_);
  }
  process_.post(a_, WrOpcode::Send);
  process_.deliver();  // the answer has the credits for the others
  EXPECT_EQ(process_.completions().size(), 2U);
  other_.qp = &b_;
  put_another_before();
  for (unsigned i = 0; i < kSends; ++i) {
    process_.post(a_, WrOpcode::Send);
  }
  EXPECT_FALSE(has_request());
  process_.parts.sender.flush_posted(LocalProcess::state_of(a_));
  EXPECT_FALSE(a_.needs_transmit());
  process_.deliver();
  EXPECT_EQ(process_.completions().size(), 2 * kSends) << "sent, received, and acknowledged";
}

TEST_F(PacketsOut, AreNotFlushedForEverWithoutSpace) {
  constexpr std::uint32_t kBytes = 1U << 16;
  process_.post(a_, WrOpcode::RdmaWrite, kBytes);
  process_.post(a_, WrOpcode::RdmaWrite, kBytes);
  process_.parts.sender.flush_posted(LocalProcess::state_of(a_));
  EXPECT_TRUE(a_.needs_transmit()) << "it has returned, and something is left";
}

}  // namespace
}  // namespace weft::host
