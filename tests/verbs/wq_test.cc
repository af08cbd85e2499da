// Receive work queues of their own.

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cerrno>

#include "verbs_fixture.h"

namespace {

TEST_F(Verbs, TakeReceivesInAWorkQueueAndFlushThem) {
  ibv_device_attr_ex device{};
  ASSERT_EQ(ibv_query_device_ex(context_, nullptr, &device), 0);
  EXPECT_GT(device.max_wq_type_rq, 0U);
  ibv_cq* const cq = ibv_create_cq(context_, 8, nullptr, nullptr, 0);
  ibv_wq_init_attr attributes{};
  attributes.wq_type = IBV_WQT_RQ;
  attributes.max_wr = 4;
  attributes.max_sge = 1;
  attributes.pd = pd_;
  attributes.cq = cq;
  attributes.comp_mask = IBV_WQ_INIT_ATTR_FLAGS;
  attributes.create_flags = IBV_WQ_FLAGS_CVLAN_STRIPPING;
  EXPECT_EQ(ibv_create_wq(context_, &attributes), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  attributes.comp_mask = 0;
  ibv_wq* const wq = ibv_create_wq(context_, &attributes);
  ASSERT_NE(wq, nullptr);
  EXPECT_EQ(ibv_destroy_cq(cq), EBUSY);
  ibv_recv_wr wr{};
  wr.wr_id = 5;
  ibv_recv_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_wq_recv(wq, &wr, &bad), EINVAL) << "in RESET";
  EXPECT_EQ(bad, &wr);
  ibv_wq_attr state{};
  state.attr_mask = IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE;
  state.wq_state = IBV_WQS_RDY;
  state.curr_wq_state = IBV_WQS_RESET;
  ASSERT_EQ(ibv_modify_wq(wq, &state), 0);
  EXPECT_EQ(wq->state, IBV_WQS_RDY);
  EXPECT_EQ(ibv_modify_wq(wq, &state), EINVAL);
  EXPECT_EQ(ibv_post_wq_recv(wq, &wr, &bad), 0);
  state.attr_mask = IBV_WQ_ATTR_STATE;
  state.wq_state = IBV_WQS_ERR;
  ASSERT_EQ(ibv_modify_wq(wq, &state), 0);
  const ibv_wc wc = wait(cq);
  EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(wc.wr_id, 5U);
  EXPECT_EQ(wc.qp_num, wq->wq_num);
  EXPECT_EQ(ibv_destroy_wq(wq), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

}  // namespace
