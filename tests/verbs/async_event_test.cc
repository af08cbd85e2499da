// The table of ibv_get_async_event(3): the events of QPs, CQs and SRQs, each caused by a program
// and seen by it. Those of ports and the device: port_event_test.cc.

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "qp_pair.h"

namespace {

class AsyncEvent : public QpPair, public ::testing::WithParamInterface<std::size_t> {
 public:
  void completions_overrun_the_cq() {
    ASSERT_NO_FATAL_FAILURE(make({.cqe = 1}));
    write();
    write();
  }
  void write_that_the_qp_does_not_permit() {
    ASSERT_NO_FATAL_FAILURE(make({.connection = {.access = 0}}));
    write();
  }
  void write_through_a_bad_rkey() {
    ASSERT_NO_FATAL_FAILURE(make());
    EXPECT_EQ(send({.opcode = IBV_WR_RDMA_WRITE, .rkey_change = 1}), 0);
  }
  void request_in_rtr() {
    ASSERT_NO_FATAL_FAILURE(make_unconnected({}));
    connect(a_, b_);
    to_init(b_, IBV_ACCESS_REMOTE_WRITE);
    to_rtr(b_, a_);
    write();
  }
  void send_queue_drained() {
    ASSERT_NO_FATAL_FAILURE(make());
    write();
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_SQD;
    attributes.en_sqd_async_notify = 1;
    EXPECT_EQ(ibv_modify_qp(a_, &attributes, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
  }
  void fewer_receives_than_the_limit() {
    ASSERT_NO_FATAL_FAILURE(make({.has_srq = true}));
    EXPECT_EQ(receive(8), 0);
    EXPECT_EQ(receive(8), 0);
    ibv_srq_attr limit{};
    limit.srq_limit = 2;
    EXPECT_EQ(ibv_modify_srq(srq_, &limit, IBV_SRQ_LIMIT), 0);
    EXPECT_EQ(send({}), 0);
  }
  void qp_with_an_srq_in_error() {
    ASSERT_NO_FATAL_FAILURE(make({.has_srq = true}));
    EXPECT_EQ(to_state(b_, IBV_QPS_ERR), 0);
  }
  /// b is a target QP whose SRQ completes into a CQ that overruns.
  void receives_of_an_xrc_srq_cannot_complete() {
    ASSERT_NO_FATAL_FAILURE(make_unconnected({.cqe = 1}));
    EXPECT_EQ(ibv_destroy_qp(a_), 0);
    EXPECT_EQ(ibv_destroy_qp(b_), 0);
    ibv_xrcd_init_attr domain{};
    domain.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    domain.fd = -1;
    xrcd_ = ibv_open_xrcd(context_, &domain);
    ibv_srq_init_attr_ex srq{};
    srq.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ |
                    IBV_SRQ_INIT_ATTR_XRCD;
    srq.srq_type = IBV_SRQT_XRC;
    srq.attr = {.max_wr = 8, .max_sge = 1, .srq_limit = 0};
    srq.pd = pd_;
    srq.xrcd = xrcd_;
    srq.cq = b_cq_;
    srq_ = ibv_create_srq_ex(context_, &srq);
    ibv_qp_init_attr_ex target{};
    target.qp_type = IBV_QPT_XRC_RECV;
    target.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    target.xrcd = xrcd_;
    b_ = ibv_create_qp_ex(context_, &target);
    auto initiator = qp_attributes(a_cq_, IBV_QPT_XRC_SEND);
    a_ = ibv_create_qp(pd_, &initiator);
    ASSERT_TRUE(srq_ != nullptr && a_ != nullptr && b_ != nullptr);
    connect(a_, b_);
    connect(b_, a_);
    std::uint32_t number = 0;
    EXPECT_EQ(ibv_get_srq_num(srq_, &number), 0);
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(receive(8), 0);
      ibv_send_wr wr{};
      wr.opcode = IBV_WR_SEND;
      wr.qp_type.xrc.remote_srqn = number;
      ibv_send_wr* bad = nullptr;
      EXPECT_EQ(ibv_post_send(a_, &wr, &bad), 0);
    }
  }

 protected:
  void write() const { EXPECT_EQ(send({.opcode = IBV_WR_RDMA_WRITE}), 0); }

  /// The next event, acknowledged; its object must be of this fixture.
  [[nodiscard]] std::string next_event(int wait_limit_ms) const {
    pollfd readable{.fd = context_->async_fd, .events = POLLIN, .revents = 0};
    if (poll(&readable, 1, wait_limit_ms) != 1) {
      return {};
    }
    ibv_async_event event{};
    EXPECT_EQ(ibv_get_async_event(context_, &event), 0);
    const ibv_event_type type = event.event_type;
    if (type == IBV_EVENT_CQ_ERR) {
      EXPECT_TRUE(event.element.cq == a_cq_ || event.element.cq == b_cq_);
    } else if (type == IBV_EVENT_SRQ_ERR || type == IBV_EVENT_SRQ_LIMIT_REACHED) {
      EXPECT_EQ(event.element.srq, srq_);
    } else {
      EXPECT_TRUE(event.element.qp == a_ || event.element.qp == b_);
    }
    ibv_ack_async_event(&event);
    return ibv_event_type_str(type);
  }
  void TearDown() override {
    if (xrcd_ != nullptr) {
      close_domain();
    }
    QpPair::TearDown();
  }
  void close_domain() {
    EXPECT_EQ(ibv_destroy_qp(a_), 0);
    EXPECT_EQ(ibv_destroy_qp(b_), 0);
    EXPECT_EQ(ibv_destroy_srq(srq_), 0);
    EXPECT_EQ(ibv_close_xrcd(xrcd_), 0);
    a_ = b_ = nullptr;
    srq_ = nullptr;
  }

  ibv_xrcd* xrcd_{};
};

struct Cause {
  const char* how;
  std::vector<ibv_event_type> events;  // that the program sees, in order
  void (AsyncEvent::*cause)();
};
const std::array<Cause, 8> kCauses{
    {
     {"completions_overrun_the_cq",
         {IBV_EVENT_CQ_ERR, IBV_EVENT_QP_FATAL},
         &AsyncEvent::completions_overrun_the_cq},
     {"write_that_the_qp_does_not_permit",
         {IBV_EVENT_QP_REQ_ERR},
         &AsyncEvent::write_that_the_qp_does_not_permit},
     {"write_through_a_bad_rkey",
         {IBV_EVENT_QP_ACCESS_ERR},
         &AsyncEvent::write_through_a_bad_rkey},
     {"request_in_rtr", {IBV_EVENT_COMM_EST}, &AsyncEvent::request_in_rtr},
     {"send_queue_drained", {IBV_EVENT_SQ_DRAINED}, &AsyncEvent::send_queue_drained},
     {"fewer_receives_than_the_limit",
         {IBV_EVENT_SRQ_LIMIT_REACHED},
         &AsyncEvent::fewer_receives_than_the_limit},
     {"qp_with_an_srq_in_error",
         {IBV_EVENT_QP_LAST_WQE_REACHED},
         &AsyncEvent::qp_with_an_srq_in_error},
     {"receives_of_an_xrc_srq_cannot_complete",
         {IBV_EVENT_CQ_ERR, IBV_EVENT_SRQ_ERR, IBV_EVENT_QP_FATAL},
         &AsyncEvent::receives_of_an_xrc_srq_cannot_complete},
     }
};

struct Elsewhere {
  ibv_event_type event;
  const char* where;
};
constexpr const char* kPorts = "port_event_test.cc";
constexpr auto kElsewhere = std::to_array<Elsewhere>({
    {IBV_EVENT_PATH_MIG,          "path_migration_test.cc"                                           },
    {IBV_EVENT_PATH_MIG_ERR,      "path_migration_test.cc"                                           },
    {IBV_EVENT_DEVICE_FATAL,      kPorts                                                             },
    {IBV_EVENT_PORT_ACTIVE,       kPorts                                                             },
    {IBV_EVENT_PORT_ERR,          kPorts                                                             },
    {IBV_EVENT_LID_CHANGE,        kPorts                                                             },
    {IBV_EVENT_PKEY_CHANGE,       kPorts                                                             },
    {IBV_EVENT_SM_CHANGE,         kPorts                                                             },
    {IBV_EVENT_CLIENT_REREGISTER, kPorts                                                             },
    {IBV_EVENT_GID_CHANGE,        kPorts                                                             },
    {IBV_EVENT_WQ_FATAL,          "a work queue here serves no QP: nothing but its flushes completes"},
});

TEST_P(AsyncEvent, IsCausedAndSeenExactly) {
  constexpr int kWaitLimit = 10'000;  // ms
  constexpr int kNoMore = 20;         // ms in which nothing else comes
  const Cause& row = kCauses.at(GetParam());
  (this->*row.cause)();
  for (const ibv_event_type expected : row.events) {
    EXPECT_EQ(next_event(kWaitLimit), ibv_event_type_str(expected));
  }
  EXPECT_EQ(next_event(kNoMore), "");
}

INSTANTIATE_TEST_SUITE_P(Table, AsyncEvent, ::testing::Range(std::size_t{0}, kCauses.size()),
                         [](const auto& test) { return std::string{kCauses[test.param].how}; });

TEST(AsyncEventTable, HasEveryEvent) {
  for (int value = IBV_EVENT_CQ_ERR; value <= IBV_EVENT_WQ_FATAL; ++value) {
    const auto event = static_cast<ibv_event_type>(value);
    const bool caused = std::ranges::any_of(kCauses, [&](const Cause& row) {
      return std::ranges::find(row.events, event) != row.events.end();
    });
    EXPECT_EQ((caused ? 1 : 0) + std::ranges::count(kElsewhere, event, &Elsewhere::event), 1)
        << ibv_event_type_str(event);
  }
}

}  // namespace
