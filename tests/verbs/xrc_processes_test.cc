// Target QPs of an XRC domain that two programs share (ibv_open_qp(3)).

#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "forked_program.h"
#include "verbs_fixture.h"

namespace {

class VerbsXrcProcesses : public Verbs {
 protected:
  [[nodiscard]] static ibv_xrcd* open_domain(ibv_context* context, int file) {
    ibv_xrcd_init_attr attributes{};
    attributes.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    attributes.fd = file;
    attributes.oflags = O_CREAT;
    return ibv_open_xrcd(context, &attributes);
  }
  [[nodiscard]] static ibv_qp* make_target(ibv_xrcd* xrcd) {
    ibv_qp_init_attr_ex attributes{};
    attributes.qp_type = IBV_QPT_XRC_RECV;
    attributes.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    attributes.xrcd = xrcd;
    return ibv_create_qp_ex(xrcd->context, &attributes);
  }
  [[nodiscard]] static ibv_qp* open_target(ibv_xrcd* xrcd, std::uint64_t number) {
    ibv_qp_open_attr attributes{};
    attributes.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
    attributes.qp_num = static_cast<std::uint32_t>(number);
    attributes.qp_type = IBV_QPT_XRC_RECV;
    attributes.xrcd = xrcd;
    return ibv_open_qp(xrcd->context, &attributes);
  }
  [[nodiscard]] static ibv_qp_state state_of(ibv_qp* qp) {
    ibv_qp_attr attributes{};
    ibv_qp_init_attr init{};
    EXPECT_EQ(ibv_query_qp(qp, &attributes, IBV_QP_STATE, &init), 0);
    return attributes.qp_state;
  }

  int file_ = memfd_create("xrc", 0);
};

TEST_F(VerbsXrcProcesses, ChangeAndKeepATargetThatOneOfThemMade) {
  const ForkedProgram home{[&](const Conversation& opener) {
    ibv_device** const list = ibv_get_device_list(nullptr);
    ibv_context* const context = ibv_open_device(list[0]);
    ibv_xrcd* const xrcd = open_domain(context, file_);
    ibv_qp* const target = make_target(xrcd);
    opener.say(target->qp_num);
    static_cast<void>(opener.hear());  // it is open
    EXPECT_EQ(state_of(target), IBV_QPS_INIT);
    EXPECT_EQ(ibv_destroy_qp(target), 0);
    EXPECT_EQ(ibv_close_xrcd(xrcd), 0);
    opener.say(0);
    static_cast<void>(opener.hear());
  }};
  const Conversation other = home.talk();
  ibv_xrcd* const xrcd = open_domain(context_, file_);
  ASSERT_NE(xrcd, nullptr);
  const std::uint64_t number = other.hear();
  ibv_qp* const target = open_target(xrcd, number);
  ASSERT_NE(target, nullptr) << strerror(errno);
  EXPECT_EQ(target->qp_num, number);
  EXPECT_EQ(target->state, IBV_QPS_RESET);
  ibv_qp* const again = open_target(xrcd, number);
  ASSERT_NE(again, nullptr);
  ibv_send_wr* bad = nullptr;
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND;
  EXPECT_NE(ibv_post_send(target, &wr, &bad), 0) << "a target has no send queue";
  to_init(target, IBV_ACCESS_REMOTE_WRITE);
  EXPECT_EQ(state_of(again), IBV_QPS_INIT);
  EXPECT_EQ(ibv_close_xrcd(xrcd), EBUSY);
  EXPECT_EQ(ibv_destroy_qp(again), 0);
  other.say(0);
  static_cast<void>(other.hear());  // its program has destroyed it and closed the domain
  EXPECT_EQ(state_of(target), IBV_QPS_INIT) << "a handle that is left keeps it";
  EXPECT_EQ(ibv_destroy_qp(target), 0);
  EXPECT_EQ(open_target(xrcd, number), nullptr) << "the last handle destroyed it";
  EXPECT_EQ(errno, EINVAL);
  other.say(0);
  EXPECT_EQ(ibv_close_xrcd(xrcd), 0);
  close(file_);
}

TEST_F(VerbsXrcProcesses, HearOfTheEndOfTheOneThatMadeTheTarget) {
  ForkedProgram home{[&](const Conversation& opener) {
    ibv_device** const list = ibv_get_device_list(nullptr);
    ibv_context* const context = ibv_open_device(list[0]);
    opener.say(make_target(open_domain(context, file_))->qp_num);
    pause();
  }};
  ibv_xrcd* const xrcd = open_domain(context_, file_);
  ibv_qp* const target = open_target(xrcd, home.talk().hear());
  ASSERT_NE(target, nullptr) << strerror(errno);
  home.kill();
  ibv_async_event event{};
  ASSERT_EQ(ibv_get_async_event(context_, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_QP_FATAL);
  EXPECT_EQ(event.element.qp, target);
  ibv_ack_async_event(&event);
  EXPECT_EQ(state_of(target), IBV_QPS_ERR);
  ibv_qp_attr attributes{};
  EXPECT_EQ(ibv_modify_qp(target, &attributes, IBV_QP_STATE), ENODEV);
  EXPECT_EQ(ibv_destroy_qp(target), 0);
  EXPECT_EQ(ibv_close_xrcd(xrcd), 0);
  close(file_);
}

}  // namespace
