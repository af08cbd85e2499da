#include "hca/work_queue.h"

#include <gtest/gtest.h>

#include <array>

#include "hca/hca.h"
#include "hca/testing/loopback_pair.h"

namespace weft::hca {
namespace {

class WorkQueues : public ::testing::Test {
 protected:
  testing::RecordedEvents events_;
  Hca hca_{{}, events_};
  ProtectionDomain& pd_ = **hca_.allocate_pd();
  CompletionQueue& cq_ = **hca_.create_cq(16);
  WorkQueue& wq_ = **hca_.create_wq({.pd = &pd_, .cq = &cq_, .depth = 2, .max_sge = 1});
};

/// R-WQ-1: at least the requested depth.
TEST_F(WorkQueues, TakeAsManyReceivesAsTheyWereMadeFor) {  // part of T-WQ-1
  WorkQueue& wq = **hca_.create_wq({.pd = &pd_, .cq = &cq_, .depth = 100, .max_sge = 3});
  ASSERT_TRUE(wq.modify(std::nullopt, WorkQueueState::Ready));
  const std::array<Sge, 3> sges{};
  for (std::uint64_t i = 0; i < 100; ++i) {
    EXPECT_TRUE(wq.post({.wr_id = i, .sges = sges})) << i;
  }
  EXPECT_TRUE(hca_.destroy_wq(wq));
}

TEST_F(WorkQueues, TakeReceivesOnceReadyAndFlushThemInError) {  // T-WQ-3
  const RecvWr wr{.wr_id = 7, .sges = {}};
  EXPECT_EQ(wq_.post(wr).error().code, ErrorCode::InvalidArgument);
  ASSERT_TRUE(wq_.modify(WorkQueueState::Reset, WorkQueueState::Ready));
  EXPECT_TRUE(wq_.post(wr));
  EXPECT_TRUE(wq_.post(wr));
  EXPECT_EQ(wq_.post(wr).error().code, ErrorCode::OutOfMemory);
  ASSERT_TRUE(wq_.modify(std::nullopt, WorkQueueState::Error));
  EXPECT_TRUE(wq_.post(wr)) << "flushed at once";
  std::array<Wc, 4> out;
  ASSERT_EQ(cq_.poll(out), 3U);
  for (const Wc& wc : std::span{out}.first(3)) {
    EXPECT_EQ(wc.status, WcStatus::WorkRequestFlushed);
    EXPECT_EQ(wc.wr_id, 7U);
    EXPECT_EQ(wc.qpn, wq_.number());
  }
}

TEST_F(WorkQueues, ChangeStateOnlyAlongTheirTransitions) {
  EXPECT_FALSE(wq_.modify(std::nullopt, WorkQueueState::Error));
  EXPECT_FALSE(wq_.modify(WorkQueueState::Ready, WorkQueueState::Ready)) << "it is in RESET";
  ASSERT_TRUE(wq_.modify(std::nullopt, WorkQueueState::Ready));
  EXPECT_FALSE(wq_.modify(std::nullopt, WorkQueueState::Ready));
  EXPECT_TRUE(wq_.post({.wr_id = 1, .sges = {}}));
  ASSERT_TRUE(wq_.modify(std::nullopt, WorkQueueState::Error));
  EXPECT_FALSE(wq_.modify(std::nullopt, WorkQueueState::Ready));
  ASSERT_TRUE(wq_.modify(std::nullopt, WorkQueueState::Reset));
  EXPECT_TRUE(cq_.is_empty()) << "RESET forgets completions, too";
  EXPECT_EQ(wq_.state(), WorkQueueState::Reset);
}

TEST_F(WorkQueues, HoldTheirPdAndCqAndTheDevicesLimits) {
  EXPECT_EQ(hca_.destroy_cq(cq_).error().code, ErrorCode::Busy);
  EXPECT_EQ(hca_.deallocate_pd(pd_).error().code, ErrorCode::Busy);
  const DeviceLimits& limits = hca_.configuration().limits;
  const WorkQueue::Init usual{.pd = &pd_, .cq = &cq_, .depth = 1, .max_sge = 1};
  for (auto [depth, sges] : {
           std::pair{0U,                   1U                },
           {limits.max_qp_wr + 1, 1U                },
           {1U,                   limits.max_sge + 1}
  }) {
    WorkQueue::Init init = usual;
    init.depth = depth;
    init.max_sge = sges;
    EXPECT_EQ(hca_.create_wq(init).error().code, ErrorCode::InvalidArgument);
  }
  for (std::uint32_t i = 1; i < limits.max_wq; ++i) {
    ASSERT_TRUE(hca_.create_wq(usual));
  }
  EXPECT_EQ(hca_.create_wq(usual).error().code, ErrorCode::OutOfMemory);
  const Qpn number = wq_.number();
  EXPECT_TRUE(hca_.destroy_wq(wq_));
  EXPECT_EQ((*hca_.create_wq(usual))->number(), number) << "the only one that is free";
}

}  // namespace
}  // namespace weft::hca
