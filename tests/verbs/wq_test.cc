// Receive work queues of their own, and behind the indirection table of a QP.

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <vector>

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

/// Two work queues behind a UD QP that sends to itself: IPoIB packets of TCP flows.
class ScaledVerbs : public Verbs {
 protected:
  static constexpr std::size_t kPart = 4'096;
  static constexpr std::array<unsigned char, 24> kHead{0x08, 0, 0,  0,  // IPoIB: IPv4
                                                       0x45, 0, 0,  44, 0, 0, 0x40, 0, 64, 6,
                                                       0,    0, 10, 0,  0, 1, 10,   0, 0,  2};

  void SetUp() override {
    Verbs::SetUp();
    mr_ = ibv_reg_mr(pd_, memory_.data(), memory_.size(), int{IBV_ACCESS_LOCAL_WRITE});
    ASSERT_NE(mr_, nullptr);
    for (std::size_t i = 0; i < queues_.size(); ++i) {
      make_queue(i);
    }
    send_cq_ = ibv_create_cq(context_, 8, nullptr, nullptr, 0);
    ibv_port_attr port{};
    ASSERT_EQ(ibv_query_port(context_, 1, &port), 0);
    ibv_ah_attr to{};
    to.dlid = port.lid;
    to.port_num = 1;
    ah_ = ibv_create_ah(pd_, &to);
    ASSERT_NE(ah_, nullptr);
  }
  void TearDown() override {
    EXPECT_EQ(ibv_destroy_ah(ah_), 0);
    for (std::size_t i = 0; i < queues_.size(); ++i) {
      EXPECT_EQ(ibv_destroy_wq(queues_[i]), 0);
      EXPECT_EQ(ibv_destroy_cq(cqs_[i]), 0);
    }
    EXPECT_EQ(ibv_destroy_cq(send_cq_), 0);
    EXPECT_EQ(ibv_dereg_mr(mr_), 0);
    Verbs::TearDown();
  }

  /// Ready, with one receive in its own part of the memory.
  void make_queue(std::size_t i) {
    cqs_[i] = ibv_create_cq(context_, 8, nullptr, nullptr, 0);
    ibv_wq_init_attr attributes{};
    attributes.wq_type = IBV_WQT_RQ;
    attributes.max_wr = attributes.max_sge = 1;
    attributes.pd = pd_;
    attributes.cq = cqs_[i];
    queues_[i] = ibv_create_wq(context_, &attributes);
    ASSERT_NE(queues_[i], nullptr);
    ibv_wq_attr ready{};
    ready.attr_mask = IBV_WQ_ATTR_STATE;
    ready.wq_state = IBV_WQS_RDY;
    ASSERT_EQ(ibv_modify_wq(queues_[i], &ready), 0);
    ibv_sge sge{.addr = address_of(kPart * (i + 1)), .length = kPart, .lkey = mr_->lkey};
    ibv_recv_wr wr{};
    wr.wr_id = i;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_wq_recv(queues_[i], &wr, &bad), 0);
  }
  [[nodiscard]] std::uint64_t address_of(std::size_t offset) {
    return std::bit_cast<std::uint64_t>(memory_.data() + offset);
  }
  /// In RTS, with the Q_Key 0x11.
  [[nodiscard]] ibv_qp* make_qp(ibv_rwq_ind_table* table, ibv_rx_hash_conf hash) {
    ibv_qp_init_attr_ex init{};
    init.qp_type = IBV_QPT_UD;
    init.send_cq = send_cq_;
    init.cap.max_send_wr = init.cap.max_send_sge = 1;
    init.pd = pd_;
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
    init.rwq_ind_tbl = table;
    init.rx_hash_conf = hash;
    ibv_qp* const qp = ibv_create_qp_ex(context_, &init);
    if (qp == nullptr) {
      return nullptr;
    }
    ibv_qp_attr state{};
    state.qp_state = IBV_QPS_INIT;
    state.port_num = 1;
    state.qkey = 0x11;
    EXPECT_EQ(
        ibv_modify_qp(qp, &state, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
    state.qp_state = IBV_QPS_RTR;
    EXPECT_EQ(ibv_modify_qp(qp, &state, IBV_QP_STATE), 0);
    state.qp_state = IBV_QPS_RTS;
    EXPECT_EQ(ibv_modify_qp(qp, &state, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
    return qp;
  }
  /// A packet from a source port whose lower octet is `port`.
  void send(ibv_qp* qp, std::uint8_t port) {
    std::copy(kHead.begin(), kHead.end(), memory_.begin());
    memory_[kHead.size()] = 4;
    memory_[kHead.size() + 1] = static_cast<char>(port);
    ibv_sge sge{.addr = address_of(0), .length = 48, .lkey = mr_->lkey};
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.ud = {.ah = ah_, .remote_qpn = qp->qp_num, .remote_qkey = 0x11};
    ibv_send_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_send(qp, &wr, &bad), 0);
    EXPECT_EQ(wait(send_cq_).status, IBV_WC_SUCCESS);
  }

  std::vector<char> memory_ = std::vector<char>(4 * kPart);
  ibv_mr* mr_{};
  std::array<ibv_cq*, 2> cqs_{};
  std::array<ibv_wq*, 2> queues_{};
  ibv_cq* send_cq_{};
  ibv_ah* ah_{};
};

TEST_F(ScaledVerbs, SpreadReceivedFlowsOverWorkQueues) {  // T-WQ-2
  ibv_device_attr_ex device{};
  ASSERT_EQ(ibv_query_device_ex(context_, nullptr, &device), 0);
  ASSERT_NE(device.rss_caps.supported_qpts & (1U << IBV_QPT_UD), 0U);
  ibv_rwq_ind_table_init_attr attributes{};
  EXPECT_EQ(ibv_create_rwq_ind_table(context_, &attributes), nullptr);
  EXPECT_EQ(errno, EINVAL);
  attributes.log_ind_tbl_size = 1;
  attributes.ind_tbl = queues_.data();
  ibv_rwq_ind_table* const table = ibv_create_rwq_ind_table(context_, &attributes);
  ASSERT_NE(table, nullptr);
  EXPECT_EQ(ibv_destroy_wq(queues_[0]), EBUSY);

  // A key whose hash is the low bit of the source port: that is bit 64 + 15 of the input, and the
  // last of the 32 bits of the key from there on is its only one.
  constexpr std::size_t kBit = 64 + 15 + 31;
  std::array<std::uint8_t, 40> key{};
  key[kBit / 8] = 0x80 >> kBit % 8;
  ibv_qp* const qp =
      make_qp(table, {.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
                      .rx_hash_key_len = key.size(),
                      .rx_hash_key = key.data(),
                      .rx_hash_fields_mask = IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4 |
                                             IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_DST_PORT_TCP});
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(ibv_destroy_rwq_ind_table(table), EBUSY);
  for (const std::size_t queue : {1U, 0U}) {
    ASSERT_NO_FATAL_FAILURE(send(qp, static_cast<std::uint8_t>(queue)));
    const ibv_wc wc = wait(cqs_[queue]);
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.wr_id, queue);
    EXPECT_EQ(wc.qp_num, queues_[queue]->wq_num);
    EXPECT_EQ(wc.byte_len, 40U + 48U);
    EXPECT_EQ(memory_[kPart * (queue + 1) + 40 + kHead.size() + 1], static_cast<char>(queue));
  }
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_rwq_ind_table(table), 0);
}

}  // namespace
