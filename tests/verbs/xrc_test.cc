// XRC within one program: domains, their SRQs, initiators and targets.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>

#include "verbs_fixture.h"

namespace {

class VerbsXrc : public Verbs {
 protected:
  void SetUp() override {
    Verbs::SetUp();
    file_ = memfd_create("xrc", 0);
    ASSERT_GE(file_, 0);
    xrcd_ = open_domain(file_, O_CREAT);
    ASSERT_NE(xrcd_, nullptr);
    cq_ = ibv_create_cq(context_, 16, nullptr, nullptr, 0);
    ASSERT_NE(cq_, nullptr);
  }
  void TearDown() override {
    EXPECT_EQ(ibv_destroy_cq(cq_), 0);
    EXPECT_EQ(ibv_close_xrcd(xrcd_), 0);
    close(file_);
    Verbs::TearDown();
  }

  [[nodiscard]] ibv_xrcd* open_domain(int file, int flags) const {
    ibv_xrcd_init_attr attributes{};
    attributes.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    attributes.fd = file;
    attributes.oflags = flags;
    return ibv_open_xrcd(context_, &attributes);
  }
  [[nodiscard]] ibv_srq* make_srq(ibv_xrcd* xrcd) const {
    ibv_srq_init_attr_ex attributes{};
    attributes.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ |
                           IBV_SRQ_INIT_ATTR_XRCD;
    attributes.srq_type = IBV_SRQT_XRC;
    attributes.attr = {.max_wr = 8, .max_sge = 1, .srq_limit = 0};
    attributes.pd = pd_;
    attributes.xrcd = xrcd;
    attributes.cq = cq_;
    return ibv_create_srq_ex(context_, &attributes);
  }
  [[nodiscard]] ibv_qp* make_target(ibv_xrcd* xrcd) const {
    ibv_qp_init_attr_ex attributes{};
    attributes.qp_type = IBV_QPT_XRC_RECV;
    attributes.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    attributes.xrcd = xrcd;
    return ibv_create_qp_ex(context_, &attributes);
  }
  [[nodiscard]] ibv_qp* make_initiator() const {
    ibv_qp_init_attr_ex attributes{};
    attributes.qp_type = IBV_QPT_XRC_SEND;
    attributes.send_cq = cq_;
    attributes.cap.max_send_wr = 8;
    attributes.cap.max_send_sge = 1;
    attributes.sq_sig_all = 1;
    attributes.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attributes.send_ops_flags = IBV_QP_EX_WITH_SEND;
    attributes.pd = pd_;
    return ibv_create_qp_ex(context_, &attributes);
  }

  int file_{-1};
  ibv_xrcd* xrcd_{};
  ibv_cq* cq_{};
};

TEST_F(VerbsXrc, AreInTheCapabilities) {
  ibv_device_attr attributes{};
  ASSERT_EQ(ibv_query_device(context_, &attributes), 0);
  EXPECT_NE(attributes.device_cap_flags & IBV_DEVICE_XRC, 0U);
}

TEST_F(VerbsXrc, OfOneFileAreOneDomain) {
  EXPECT_EQ(open_domain(file_, O_CREAT | O_EXCL), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_xrcd* const again = open_domain(file_, 0);
  ASSERT_NE(again, nullptr);
  // What one handle's objects are, the other's find: a target by its number.
  ibv_qp* const target = make_target(xrcd_);
  ASSERT_NE(target, nullptr);
  ibv_qp_open_attr open{};
  open.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  open.qp_num = target->qp_num;
  open.qp_type = IBV_QPT_XRC_RECV;
  open.xrcd = again;
  ibv_qp* const second = ibv_open_qp(context_, &open);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second->qp_num, target->qp_num);
  EXPECT_EQ(ibv_close_xrcd(again), EBUSY);
  EXPECT_EQ(ibv_destroy_qp(target), 0);
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = 1;
  EXPECT_EQ(ibv_modify_qp(second, &attributes,
                          IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
            0)
      << "a handle that is left keeps the QP";
  EXPECT_EQ(ibv_destroy_qp(second), 0);
  EXPECT_EQ(ibv_open_qp(context_, &open), nullptr) << "the last handle took it away";
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_close_xrcd(again), 0);
}

TEST_F(VerbsXrc, OfAnotherFileOrNoneAreOtherDomains) {
  const int other_file = memfd_create("other", 0);
  EXPECT_EQ(open_domain(other_file, 0), nullptr);
  EXPECT_EQ(errno, EAGAIN) << "as nobody made it";
  ibv_xrcd* const anonymous = open_domain(-1, O_CREAT);
  ASSERT_NE(anonymous, nullptr);
  ibv_qp* const target = make_target(xrcd_);
  ibv_qp_open_attr open{};
  open.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  open.qp_num = target->qp_num;
  open.qp_type = IBV_QPT_XRC_RECV;
  open.xrcd = anonymous;
  EXPECT_EQ(ibv_open_qp(context_, &open), nullptr);
  EXPECT_EQ(ibv_destroy_qp(target), 0);
  EXPECT_EQ(ibv_close_xrcd(anonymous), 0);
  close(other_file);
}

TEST_F(VerbsXrc, RefuseWhatMakesNoSense) {
  EXPECT_EQ(make_target(nullptr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(make_srq(nullptr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_srq* const srq = make_srq(xrcd_);
  ASSERT_NE(srq, nullptr);
  EXPECT_EQ(ibv_destroy_cq(cq_), EBUSY);
  EXPECT_EQ(ibv_close_xrcd(xrcd_), EBUSY);
  ibv_qp_init_attr rc = qp_attributes(cq_);
  rc.srq = srq;
  EXPECT_EQ(ibv_create_qp(pd_, &rc), nullptr) << "an XRC SRQ is for XRC targets";
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  ibv_srq_init_attr basic{};
  basic.attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0};
  ibv_srq* const basic_srq = ibv_create_srq(pd_, &basic);
  std::uint32_t number = 0;
  EXPECT_EQ(ibv_get_srq_num(basic_srq, &number), EOPNOTSUPP);
  EXPECT_EQ(ibv_destroy_srq(basic_srq), 0);
}

TEST_F(VerbsXrc, CarryMessagesBothWaysToPost) {
  ibv_srq* const other = make_srq(xrcd_);
  ibv_srq* const srq = make_srq(xrcd_);
  ibv_qp* const target = make_target(xrcd_);
  ibv_qp* const initiator = make_initiator();
  ASSERT_TRUE(srq != nullptr && other != nullptr && target != nullptr && initiator != nullptr);
  // As perftest does: both QPs get all attributes, and each leaves out what it has no half for.
  connect(target, initiator);
  connect(initiator, target);
  std::uint32_t number = 0;
  ASSERT_EQ(ibv_get_srq_num(srq, &number), 0);
  std::array<char, 64> memory{"to the SRQ"};
  ibv_mr* const mr = ibv_reg_mr(pd_, memory.data(), memory.size(), int{IBV_ACCESS_LOCAL_WRITE});
  ibv_sge sge{
      .addr = std::bit_cast<std::uintptr_t>(memory.data() + 32), .length = 32, .lkey = mr->lkey};
  ibv_recv_wr receive{.wr_id = 7, .next = nullptr, .sg_list = &sge, .num_sge = 1};
  ibv_recv_wr* bad_receive = nullptr;
  ibv_sge from{
      .addr = std::bit_cast<std::uintptr_t>(memory.data()), .length = 11, .lkey = mr->lkey};
  for (const bool extended : {false, true}) {
    ASSERT_EQ(ibv_post_srq_recv(srq, &receive, &bad_receive), 0);
    if (extended) {
      ibv_qp_ex* const qp = ibv_qp_to_qp_ex(initiator);
      ibv_wr_start(qp);
      qp->wr_id = 8;
      ibv_wr_send(qp);
      ibv_wr_set_xrc_srqn(qp, number);
      ibv_wr_set_sge(qp, from.lkey, from.addr, from.length);
      ASSERT_EQ(ibv_wr_complete(qp), 0);
    } else {
      ibv_send_wr send{};
      send.wr_id = 8;
      send.opcode = IBV_WR_SEND;
      send.sg_list = &from;
      send.num_sge = 1;
      send.qp_type.xrc.remote_srqn = number;
      ibv_send_wr* bad = nullptr;
      ASSERT_EQ(ibv_post_send(initiator, &send, &bad), 0);
    }
    for (int i = 0; i < 2; ++i) {
      const ibv_wc wc = wait(cq_);
      EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
      EXPECT_EQ(wc.qp_num, wc.wr_id == 7 ? target->qp_num : initiator->qp_num);
    }
    EXPECT_STREQ(memory.data() + 32, "to the SRQ");
    memory[32] = '\0';
  }
  EXPECT_EQ(ibv_destroy_qp(initiator), 0);
  EXPECT_EQ(ibv_destroy_qp(target), 0);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  EXPECT_EQ(ibv_destroy_srq(other), 0);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

/// An event of a target QP goes to each of its handles.
TEST_F(VerbsXrc, TellEveryHandleOfATarget) {
  ibv_qp* const target = make_target(xrcd_);
  ibv_qp* const initiator = make_initiator();
  connect(target, initiator);
  connect(initiator, target);
  ibv_qp_open_attr open{};
  open.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE |
                   IBV_QP_OPEN_ATTR_CONTEXT;
  open.qp_num = target->qp_num;
  open.qp_type = IBV_QPT_XRC_RECV;
  open.xrcd = xrcd_;
  open.qp_context = &open;
  ibv_qp* const second = ibv_open_qp(context_, &open);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second->qp_context, &open);
  ibv_send_wr send{};
  send.opcode = IBV_WR_SEND;
  send.qp_type.xrc.remote_srqn = 0xFF'FFFF;
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(initiator, &send, &bad), 0);
  EXPECT_EQ(wait(cq_).status, IBV_WC_REM_ACCESS_ERR);
  unsigned told = 0;
  for (int i = 0; i < 2; ++i) {
    ibv_async_event event{};
    ASSERT_EQ(ibv_get_async_event(context_, &event), 0);
    EXPECT_EQ(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
    told |= event.element.qp == target ? 1U : event.element.qp == second ? 2U : 0U;
    ibv_ack_async_event(&event);
  }
  EXPECT_EQ(told, 3U);
  EXPECT_EQ(ibv_destroy_qp(initiator), 0);
  EXPECT_EQ(ibv_destroy_qp(second), 0);
  EXPECT_EQ(ibv_destroy_qp(target), 0);
}

}  // namespace
