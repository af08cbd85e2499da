#pragma once

// What the tests of the verbs API share: a fabric, and a device of h1 that is open.

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <unistd.h>

/// An open device with a PD; the whole program is on h1 of a pair.
class Verbs : public ::testing::Test {
 protected:
  void SetUp() override {
    int count = 0;
    list_ = ibv_get_device_list(&count);
    ASSERT_NE(list_, nullptr);
    ASSERT_EQ(count, 1);
    context_ = ibv_open_device(list_[0]);
    ASSERT_NE(context_, nullptr);
    pd_ = ibv_alloc_pd(context_);
    ASSERT_NE(pd_, nullptr);
  }
  void TearDown() override {
    EXPECT_EQ(ibv_dealloc_pd(pd_), 0);
    EXPECT_EQ(ibv_close_device(context_), 0);
    ibv_free_device_list(list_);
  }

  [[nodiscard]] ibv_qp_init_attr qp_attributes(ibv_cq* cq, ibv_qp_type type = IBV_QPT_RC) const {
    ibv_qp_init_attr attributes{};
    attributes.send_cq = attributes.recv_cq = cq;
    attributes.qp_type = type;
    attributes.cap = {.max_send_wr = 8,
                      .max_recv_wr = 8,
                      .max_send_sge = 2,
                      .max_recv_sge = 2,
                      .max_inline_data = 0};
    return attributes;
  }

  /// What a connected QP may differ in.
  struct Connection {
    unsigned access{IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC};
    std::uint8_t rnr_retry{7};
  };

  /// An RC QP connected to itself: the whole path through a lane, in one program.
  void connect_to_itself(ibv_qp* qp) const { connect(qp, qp); }
  void connect(ibv_qp* qp, const ibv_qp* peer) const { connect(qp, peer, {}); }
  void connect(ibv_qp* qp, const ibv_qp* peer, const Connection& how) const {
    to_init(qp, how.access);
    to_rtr(qp, peer);
    to_rts(qp, how.rnr_retry);
  }
  void to_init(ibv_qp* qp, unsigned access) const {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.port_num = 1;
    attributes.qp_access_flags = access;
    ASSERT_EQ(ibv_modify_qp(qp, &attributes,
                            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
              0);
  }
  void to_rtr(ibv_qp* qp, const ibv_qp* peer) const {
    ibv_port_attr port{};
    ASSERT_EQ(ibv_query_port(context_, 1, &port), 0);
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_RTR;
    attributes.path_mtu = IBV_MTU_1024;
    attributes.dest_qp_num = peer->qp_num;
    attributes.max_dest_rd_atomic = 1;
    attributes.min_rnr_timer = 1;
    attributes.ah_attr.dlid = port.lid;
    attributes.ah_attr.port_num = 1;
    ASSERT_EQ(ibv_modify_qp(qp, &attributes,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
              0);
  }
  void to_rts(ibv_qp* qp, std::uint8_t rnr_retry = 7) const {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_RTS;
    attributes.timeout = 14;
    attributes.retry_cnt = 7;
    attributes.rnr_retry = rnr_retry;
    attributes.max_rd_atomic = 1;
    ASSERT_EQ(ibv_modify_qp(qp, &attributes,
                            IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
              0);
  }

  ibv_wc wait(ibv_cq* cq) const {
    ibv_wc wc{};
    wc.status = IBV_WC_GENERAL_ERR;
    for (int i = 0; i < 20'000; ++i) {
      if (ibv_poll_cq(cq, 1, &wc) != 0) {
        return wc;
      }
      usleep(100);
    }
    ADD_FAILURE() << "no completion";
    return wc;
  }

  ibv_device** list_{};
  ibv_context* context_{};
  ibv_pd* pd_{};
};
