// Which mistakes in a send request the verb refuses and which its completion tells. Neither
// ibv_post_send(3) nor ibv_poll_cq(3) says it of each, so the specification does: the results of
// Post Send Request (IBTA vol 1 §11.4.1.1) are immediate, the statuses of completions are those of
// §11.6.2.

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cerrno>

#include "qp_pair.h"

namespace {

class PostErrors : public QpPair {
 protected:
  void SetUp() override {
    QpPair::SetUp();
    ASSERT_NO_FATAL_FAILURE(make());
    auto attributes = qp_attributes(a_cq_, IBV_QPT_UD);
    ud_ = ibv_create_qp(pd_, &attributes);
    ASSERT_NE(ud_, nullptr);
    ibv_qp_attr next{};
    next.qp_state = IBV_QPS_INIT;
    next.port_num = 1;
    ASSERT_EQ(
        ibv_modify_qp(ud_, &next, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
    ASSERT_EQ(to_state(ud_, IBV_QPS_RTR), 0);
    next.qp_state = IBV_QPS_RTS;
    ASSERT_EQ(ibv_modify_qp(ud_, &next, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
    ah_ = make_ah(pd_);
    ASSERT_NE(ah_, nullptr);
  }
  void TearDown() override {
    EXPECT_EQ(ibv_destroy_ah(ah_), 0);
    EXPECT_EQ(ibv_destroy_qp(ud_), 0);
    QpPair::TearDown();
  }
  [[nodiscard]] ibv_ah* make_ah(ibv_pd* pd) const {
    ibv_port_attr port{};
    EXPECT_EQ(ibv_query_port(context_, 1, &port), 0);
    ibv_ah_attr to{};
    to.dlid = port.lid;
    to.port_num = 1;
    return ibv_create_ah(pd, &to);
  }
  [[nodiscard]] int post_datagram(ibv_wr_opcode opcode, std::uint32_t length, ibv_ah* ah,
                                  std::uint64_t wr_id = 1) const {
    ibv_sge from = sge(length);
    ibv_send_wr wr{};
    wr.wr_id = wr_id;
    wr.opcode = opcode;
    wr.sg_list = &from;
    wr.num_sge = 1;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.ud = {.ah = ah, .remote_qpn = ud_->qp_num, .remote_qkey = 0};
    ibv_send_wr* bad = nullptr;
    const int error = ibv_post_send(ud_, &wr, &bad);
    EXPECT_EQ(error != 0, bad == &wr);
    return error;
  }
  [[nodiscard]] int post_atomic(std::uint32_t length) const {
    return send({.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .length = length});
  }
  [[nodiscard]] static ibv_qp_state state_of(ibv_qp* qp) {
    ibv_qp_attr attributes{};
    ibv_qp_init_attr init{};
    EXPECT_EQ(ibv_query_qp(qp, &attributes, IBV_QP_STATE, &init), 0);
    return attributes.qp_state;
  }

  ibv_qp* ud_{};
  ibv_ah* ah_{};
};

TEST_F(PostErrors, AnOperationThatTheServiceLacksIsRefused) {  // "Invalid operation type"
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE, IBV_WR_ATOMIC_CMP_AND_SWP,
                                     IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_SEND_WITH_INV}) {
    EXPECT_EQ(post_datagram(opcode, 8, ah_), EINVAL) << opcode;
  }
  EXPECT_EQ(state_of(ud_), IBV_QPS_RTS);
}

TEST_F(PostErrors, AnAddressHandleOfAnotherPdIsRefused) {  // "Invalid address handle", §10.2.2
  ibv_pd* const other = ibv_alloc_pd(context_);
  ibv_ah* const ah = make_ah(other);
  EXPECT_EQ(post_datagram(IBV_WR_SEND, 8, ah), EINVAL);
  EXPECT_EQ(state_of(ud_), IBV_QPS_RTS);
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
  EXPECT_EQ(ibv_dealloc_pd(other), 0);
}

TEST_F(PostErrors, AnAtomicOfAnotherLengthIsRefused) {  // "Invalid scatter/gather list length"
  EXPECT_EQ(post_atomic(4), EINVAL);
  EXPECT_EQ(post_atomic(16), EINVAL);
  EXPECT_EQ(post_atomic(0), EINVAL);
  EXPECT_EQ(state_of(a_), IBV_QPS_RTS);
}

TEST_F(PostErrors, ADatagramAboveTheMtuCompletesWithALengthError) {  // §11.6.2
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(context_, 1, &port), 0);
  ASSERT_EQ(port.active_mtu, IBV_MTU_4096);
  static_assert(sizeof memory_ == 4096, "the SGE's own memory is no matter: length counts first");
  EXPECT_EQ(post_datagram(IBV_WR_SEND, 4096, ah_, 1), 0);
  EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS) << "as long as it may be";
  EXPECT_EQ(post_datagram(IBV_WR_SEND, 4097, ah_, 2), 0);
  const ibv_wc wc = wait(a_cq_);
  EXPECT_EQ(wc.wr_id, 2U);
  EXPECT_EQ(wc.status, IBV_WC_LOC_LEN_ERR) << ibv_wc_status_str(wc.status);
  EXPECT_EQ(state_of(ud_), IBV_QPS_SQE) << "§10.3.1: what follows is flushed";
  EXPECT_EQ(post_datagram(IBV_WR_SEND, 8, ah_, 3), 0);
  EXPECT_EQ(wait(a_cq_).status, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(PostErrors, AKeyThatOpensNothingCompletesWithAProtectionError) {  // §11.6.2
  EXPECT_EQ(send({.lkey_change = 1}), 0);
  EXPECT_EQ(wait(a_cq_).status, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(state_of(a_), IBV_QPS_ERR);
}

}  // namespace
