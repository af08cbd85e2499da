// Memory windows, as a program binds, uses and takes them back.

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <array>
#include <bit>
#include <cerrno>

#include "verbs_fixture.h"

namespace {

/// A QP that is its own peer, and a region that peers reach only through windows.
class MemoryWindows : public Verbs {
 protected:
  void SetUp() override {
    Verbs::SetUp();
    cq_ = ibv_create_cq(context_, 16, nullptr, nullptr, 0);
    ibv_qp_init_attr_ex attributes{};
    attributes.send_cq = attributes.recv_cq = cq_;
    attributes.qp_type = IBV_QPT_RC;
    attributes.cap = qp_attributes(cq_).cap;
    attributes.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attributes.pd = pd_;
    attributes.send_ops_flags = IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV;
    qp_ = ibv_create_qp_ex(context_, &attributes);
    ASSERT_NE(qp_, nullptr);
    connect_to_itself(qp_);
    mr_ = ibv_reg_mr(pd_, memory_.data(), memory_.size(),
                     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
    ASSERT_NE(mr_, nullptr);
  }
  void TearDown() override {
    EXPECT_EQ(ibv_dereg_mr(mr_), 0);
    EXPECT_EQ(ibv_destroy_qp(qp_), 0);
    EXPECT_EQ(ibv_destroy_cq(cq_), 0);
    Verbs::TearDown();
  }

  /// The second half of the memory, for peers to write.
  [[nodiscard]] ibv_mw_bind_info second_half() const {
    return {.mr = mr_,
            .addr = std::bit_cast<std::uint64_t>(&memory_[32]),
            .length = 32,
            .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
  }
  [[nodiscard]] int post(ibv_send_wr& wr) const {
    wr.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(qp_, &wr, &bad);
  }
  [[nodiscard]] int post_bind(ibv_mw* mw, std::uint32_t rkey, ibv_mw_bind_info info) const {
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_BIND_MW;
    wr.bind_mw.mw = mw;
    wr.bind_mw.rkey = rkey;
    wr.bind_mw.bind_info = info;
    return post(wr);
  }
  [[nodiscard]] int post_invalidate(ibv_wr_opcode opcode, std::uint32_t rkey) const {
    ibv_send_wr wr{};
    wr.opcode = opcode;
    wr.invalidate_rkey = rkey;
    return post(wr);
  }
  /// WRITE of the first byte to byte `to`.
  [[nodiscard]] ibv_wc_status write(std::uint32_t rkey, std::size_t to) {
    ibv_sge sge{
        .addr = std::bit_cast<std::uint64_t>(memory_.data()), .length = 1, .lkey = mr_->lkey};
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.wr.rdma.remote_addr = std::bit_cast<std::uint64_t>(&memory_[to]);
    wr.wr.rdma.rkey = rkey;
    return post(wr) == 0 ? wait(cq_).status : IBV_WC_GENERAL_ERR;
  }

  /// Whether a WRITE fails and leaves no trace. The QP is its own peer: its responder half takes it
  /// to the error state before the requester half hears why.
  [[nodiscard]] bool refuses(std::uint32_t rkey) {
    const bool failed = write(rkey, 50) == IBV_WC_WR_FLUSH_ERR;
    ibv_async_event event{};
    EXPECT_EQ(ibv_get_async_event(context_, &event), 0);
    ibv_ack_async_event(&event);
    return failed && event.event_type == IBV_EVENT_QP_ACCESS_ERR && memory_[50] == 0;
  }

  std::array<char, 64> memory_{'x'};
  ibv_cq* cq_{};
  ibv_qp* qp_{};
  ibv_mr* mr_{};
};

TEST_F(MemoryWindows, AreAmongTheDevicesCapabilities) {
  ibv_device_attr attributes{};
  ASSERT_EQ(ibv_query_device(context_, &attributes), 0);
  EXPECT_GT(attributes.max_mw, 0);
  const unsigned flags = attributes.device_cap_flags;
  EXPECT_NE(flags & IBV_DEVICE_MEM_WINDOW, 0U);
  EXPECT_NE(flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B, 0U);
  EXPECT_EQ(flags & IBV_DEVICE_MEM_WINDOW_TYPE_2A, 0U) << "a device has one or the other";
  EXPECT_EQ(ibv_alloc_mw(pd_, static_cast<ibv_mw_type>(3)), nullptr);
  EXPECT_EQ(errno, EINVAL) << "no such type";
}

TEST_F(MemoryWindows, OfTypeOneGetANewKeyAtEveryBind) {
  ibv_mw* const mw = ibv_alloc_mw(pd_, IBV_MW_TYPE_1);
  ASSERT_NE(mw, nullptr);
  const std::uint32_t before = mw->rkey;
  ibv_mw_bind bind{.wr_id = 5, .send_flags = IBV_SEND_SIGNALED, .bind_info = second_half()};
  ASSERT_EQ(ibv_bind_mw(qp_, mw, &bind), 0);
  const ibv_wc wc = wait(cq_);
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_BIND_MW);
  EXPECT_EQ(wc.wr_id, 5U);
  EXPECT_EQ(mw->rkey, ibv_inc_rkey(before));
  EXPECT_EQ(write(mw->rkey, 40), IBV_WC_SUCCESS);
  EXPECT_EQ(memory_[40], 'x');
  EXPECT_EQ(post_bind(mw, ibv_inc_rkey(mw->rkey), second_half()), EINVAL) << "that is for type 2";
  bind.bind_info = {};  // length 0: unbound
  ASSERT_EQ(ibv_bind_mw(qp_, mw, &bind), 0);
  EXPECT_EQ(wait(cq_).status, IBV_WC_SUCCESS);
  EXPECT_TRUE(refuses(mw->rkey));
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

TEST_F(MemoryWindows, OfTypeTwoTakeTheProgramsKeyAndKeepTheirRegion) {
  ibv_mw* const mw = ibv_alloc_mw(pd_, IBV_MW_TYPE_2);
  ASSERT_NE(mw, nullptr);
  const std::uint32_t rkey = ibv_inc_rkey(mw->rkey);
  ASSERT_EQ(post_bind(mw, rkey, second_half()), 0);
  EXPECT_EQ(wait(cq_).opcode, IBV_WC_BIND_MW);
  EXPECT_EQ(write(rkey, 63), IBV_WC_SUCCESS);
  EXPECT_EQ(memory_[63], 'x');
  EXPECT_EQ(ibv_dereg_mr(mr_), EBUSY);
  ASSERT_EQ(post_invalidate(IBV_WR_LOCAL_INV, rkey), 0);
  EXPECT_EQ(wait(cq_).status, IBV_WC_SUCCESS);
  EXPECT_TRUE(refuses(rkey));
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

/// A program may give any number whose low 8 bits are the key part that it wants.
TEST_F(MemoryWindows, OfTypeTwoTakeTheLowEightBitsOfTheProgramsKeyAndNoMore) {
  ibv_mw* const mw = ibv_alloc_mw(pd_, IBV_MW_TYPE_2);
  ASSERT_NE(mw, nullptr);
  const std::uint32_t rkey = ibv_inc_rkey(mw->rkey);
  ASSERT_EQ(post_bind(mw, rkey ^ 0xABCD'EF00, second_half()), 0);
  EXPECT_EQ(wait(cq_).status, IBV_WC_SUCCESS);
  EXPECT_EQ(write(rkey, 63), IBV_WC_SUCCESS);
  ASSERT_EQ(post_invalidate(IBV_WR_LOCAL_INV, rkey), 0);
  EXPECT_EQ(wait(cq_).status, IBV_WC_SUCCESS);
  const std::uint32_t next = ibv_inc_rkey(rkey);
  const ibv_mw_bind_info info = second_half();
  ibv_qp_ex* const qp = ibv_qp_to_qp_ex(qp_);
  ibv_wr_start(qp);
  qp->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_bind_mw(qp, mw, next & 0xFF, &info);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  EXPECT_EQ(wait(cq_).status, IBV_WC_SUCCESS);
  EXPECT_EQ(write(next, 62), IBV_WC_SUCCESS);
  EXPECT_TRUE(refuses(rkey)) << "the window has a new key";
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

/// C10-72, o10-37.2.30: no errno, for it is the queue that finds out.
TEST_F(MemoryWindows, BoundThroughAnotherQpFailAsABind) {
  for (const bool of_another_pd : {true, false}) {
    ibv_pd* const pd = of_another_pd ? ibv_alloc_pd(context_) : pd_;
    ASSERT_NE(pd, nullptr);
    ibv_qp_init_attr init = qp_attributes(cq_);
    ibv_qp* const other = ibv_create_qp(pd, &init);
    ASSERT_NE(other, nullptr);
    connect_to_itself(other);
    ibv_mw* const mw = ibv_alloc_mw(pd_, IBV_MW_TYPE_2);
    ASSERT_NE(mw, nullptr);
    const std::uint32_t rkey = ibv_inc_rkey(mw->rkey);
    if (!of_another_pd) {
      ASSERT_EQ(post_bind(mw, rkey, second_half()), 0);
      EXPECT_EQ(wait(cq_).status, IBV_WC_SUCCESS);
    }
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_BIND_MW;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.bind_mw = {.mw = mw, .rkey = ibv_inc_rkey(rkey), .bind_info = second_half()};
    ibv_send_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_send(other, &wr, &bad), 0);
    EXPECT_EQ(wait(cq_).status, IBV_WC_MW_BIND_ERR);
    ibv_qp_attr attributes{};
    ASSERT_EQ(ibv_query_qp(other, &attributes, IBV_QP_STATE, &init), 0);
    EXPECT_EQ(attributes.qp_state, IBV_QPS_ERR);
    EXPECT_EQ(ibv_dealloc_mw(mw), 0);
    EXPECT_EQ(ibv_destroy_qp(other), 0);
    if (of_another_pd) {
      EXPECT_EQ(ibv_dealloc_pd(pd), 0);
    }
  }
}

TEST_F(MemoryWindows, AreInvalidatedByThePeersSend) {
  ibv_mw* const mw = ibv_alloc_mw(pd_, IBV_MW_TYPE_2);
  ASSERT_NE(mw, nullptr);
  const std::uint32_t rkey = ibv_inc_rkey(mw->rkey);
  ASSERT_EQ(post_bind(mw, rkey, second_half()), 0);
  EXPECT_EQ(wait(cq_).status, IBV_WC_SUCCESS);
  ibv_recv_wr receive{};
  ibv_recv_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_recv(qp_, &receive, &bad), 0);
  ASSERT_EQ(post_invalidate(IBV_WR_SEND_WITH_INV, rkey), 0);
  for (int i = 0; i < 2; ++i) {
    const ibv_wc wc = wait(cq_);
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    if (wc.opcode == IBV_WC_RECV) {
      EXPECT_NE(wc.wc_flags & static_cast<unsigned>(IBV_WC_WITH_INV), 0U);
      EXPECT_EQ(wc.invalidated_rkey, rkey);
    }
  }
  EXPECT_TRUE(refuses(rkey));
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

TEST_F(MemoryWindows, AreBoundByTheExtendedPost) {
  ibv_mw* const mw = ibv_alloc_mw(pd_, IBV_MW_TYPE_2);
  ASSERT_NE(mw, nullptr);
  const std::uint32_t rkey = ibv_inc_rkey(mw->rkey);
  const ibv_mw_bind_info info = second_half();
  ibv_qp_ex* const qp = ibv_qp_to_qp_ex(qp_);
  ibv_wr_start(qp);
  qp->wr_id = 6;
  qp->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_bind_mw(qp, mw, rkey, &info);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  EXPECT_EQ(wait(cq_).status, IBV_WC_SUCCESS);
  EXPECT_EQ(write(rkey, 40), IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_dealloc_mw(mw), 0) << "bound as it is";
  EXPECT_TRUE(refuses(rkey));
}

TEST_F(MemoryWindows, BadBindIsACompletionWithItsOwnStatus) {
  ibv_mw* const mw = ibv_alloc_mw(pd_, IBV_MW_TYPE_2);
  ASSERT_NE(mw, nullptr);
  ibv_mw_bind_info info = second_half();
  info.length = 33;
  ASSERT_EQ(post_bind(mw, ibv_inc_rkey(mw->rkey), info), 0);
  EXPECT_EQ(wait(cq_).status, IBV_WC_MW_BIND_ERR);
  ibv_qp_attr attributes{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(qp_, &attributes, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(attributes.qp_state, IBV_QPS_ERR);
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

}  // namespace
