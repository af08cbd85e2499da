#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>

#include "hca/testing/loopback_pair.h"
#include "hca/testing/work_requests.h"

/// The table of asynchronous events (ibv_get_async_event(3), IBTA vol 1 §11.6.3): provokes each
/// event that QPs, CQs and SRQs raise. The driver raises those of ports and of the device:
/// host/process_tables_test.cc. tests/verbs covers what programs see of both.
namespace weft::hca {
namespace {

using testing::InFlightPacket;
using testing::LoopbackPair;
using testing::PairOptions;
using testing::receive;
using testing::request;
using testing::Side;
using testing::to_state;

using enum AsyncEventType;

enum class At : std::uint8_t { Requester, Responder };

struct Cause {
  AsyncEventType event;
  const char* how;
  At at;
  PairOptions options;
  const char* all;  // all events of this side, in order
  void (*cause)(LoopbackPair&);
};

/// Indexed by AsyncEventType.
constexpr auto kNames = std::to_array<const char*>(
    {"CQ_ERR", "QP_FATAL", "QP_REQ_ERR", "QP_ACCESS_ERR", "COMM_EST", "SQ_DRAINED", "PATH_MIG",
     "PATH_MIG_ERR", "DEVICE_FATAL", "PORT_ACTIVE", "PORT_ERR", "LID_CHANGE", "PKEY_CHANGE",
     "SM_CHANGE", "SRQ_ERR", "SRQ_LIMIT_REACHED", "QP_LAST_WQE_REACHED", "CLIENT_REREGISTER",
     "GID_CHANGE"});
[[nodiscard]] std::string name(AsyncEventType event) {
  return kNames.at(static_cast<std::size_t>(event));
}

constexpr PairOptions kRc{};
constexpr PairOptions kUc{.type = QpType::Uc};
constexpr PairOptions kUd{.type = QpType::Ud};
constexpr PairOptions kXrc{.type = QpType::XrcInitiator};
constexpr PairOptions kReadOnlyQp{.qp_access = Access::RemoteRead};
constexpr PairOptions kShared{.shared_receive_queue = true};

[[nodiscard]] constexpr PairOptions with_small_cqs(PairOptions options) {
  options.cq_depth = 1;
  return options;
}

void send_twice(LoopbackPair& pair) {
  for (const std::uint64_t id : {1U, 2U}) {
    receive(pair.b(), 64, id);
    request(pair, {.wr_id = id});
  }
}

/// b's receive CQ has room for both completions, so only a's CQ overruns.
void send_unseen(LoopbackPair& pair) {
  ASSERT_TRUE(pair.b().recv_cq->resize(8));
  send_twice(pair);
}

void drain(LoopbackPair& pair) {
  QpAttributes attributes;
  attributes.state = QpState::Sqd;
  attributes.enable_sqd_async_notify = true;
  ASSERT_TRUE(pair.a().qp->modify(
      attributes, QpAttributeMask{QpAttribute::State} | QpAttribute::EnableSqdAsyncNotify));
}

void send_before_draining(LoopbackPair& pair) {
  receive(pair.b(), 64);
  request(pair, {});
  pair.collect();
  drain(pair);
}

/// b is in RTR when the request arrives.
void send_to_rtr(LoopbackPair& pair) {
  to_state(*pair.b().qp, QpState::Reset);
  pair.to_init(pair.b());
  pair.to_rtr(pair.b(), pair.a());
  pair.b().events.events.clear();
  for (int i = 0; i < 2; ++i) {
    receive(pair.b(), 64);
    request(pair, {});
  }
}

void operation_that_the_qp_does_not_permit(LoopbackPair& pair) {
  request(pair, {.opcode = WrOpcode::RdmaWrite});
}

void last_packet_without_a_first(LoopbackPair& pair) {
  pair.filter = [](InFlightPacket& in_flight_packet) {
    if (in_flight_packet.header.opcode == wire::Opcode::RcRdmaWriteOnly) {
      in_flight_packet.header.opcode = in_flight_packet.header.last_opcode =
          wire::Opcode::RcRdmaWriteLast;
    }
    return true;
  };
  request(pair, {.opcode = WrOpcode::RdmaWrite});
}

void no_such_rkey(LoopbackPair& pair) {
  request(pair, {.opcode = WrOpcode::RdmaWrite, .rkey_change = 1});
}

void misaligned_atomic(LoopbackPair& pair) {
  request(pair, {.opcode = WrOpcode::FetchAdd, .offset = 4});
}

void more_reads_than_responder_resources(LoopbackPair& pair) {
  request(pair, {.opcode = WrOpcode::RdmaRead});
}

void write_with_other_bytes_than_dmalen(LoopbackPair& pair) {
  pair.filter = [](InFlightPacket& in_flight_packet) {
    in_flight_packet.header.extension.reth.dma_length +=
        in_flight_packet.flow == Flow::Request ? 1 : 0;
    return true;
  };
  request(pair, {.opcode = WrOpcode::RdmaWrite});
}

void xrc_srq_that_is_not(LoopbackPair& pair) {
  pair.filter = [](InFlightPacket& in_flight_packet) {
    in_flight_packet.header.xrc_srqn ^= in_flight_packet.flow == Flow::Request ? 1 : 0;
    return true;
  };
  request(pair, {.opcode = WrOpcode::RdmaWrite});
}

void fewer_receives_than_the_limit(LoopbackPair& pair) {
  for (int i = 0; i < 3; ++i) {
    receive(pair.b(), 64);
  }
  ASSERT_TRUE(pair.b().hca.modify_srq(*pair.b().srq, std::nullopt, 2));
  for (int i = 0; i < 3; ++i) {
    request(pair, {});
  }
}

void qp_with_an_srq_in_error(LoopbackPair& pair) {
  receive(pair.b(), 64);
  to_state(*pair.b().qp, QpState::Err);
}

constexpr auto kCauses = std::to_array<Cause>({
    {CqError,                  "send_cq_overrun",                        At::Requester, with_small_cqs(kRc),  "CQ_ERR QP_FATAL",
     send_unseen                                                                                                                                                          },
    {QpFatal,                  "rc_receives_cannot_complete",            At::Responder, with_small_cqs(kRc),  "CQ_ERR QP_FATAL",
     send_twice                                                                                                                                                           },
    {QpFatal,                  "uc_receives_cannot_complete",            At::Responder, with_small_cqs(kUc),  "CQ_ERR QP_FATAL",
     send_twice                                                                                                                                                           },
    {QpFatal,                  "ud_receives_cannot_complete",            At::Responder, with_small_cqs(kUd),  "CQ_ERR QP_FATAL",
     send_twice                                                                                                                                                           },
    {QpFatal,                  "uc_sends_cannot_complete",               At::Requester, with_small_cqs(kUc),  "CQ_ERR QP_FATAL",
     send_unseen                                                                                                                                                          },
    {QpFatal,                  "ud_sends_cannot_complete",               At::Requester, with_small_cqs(kUd),  "CQ_ERR QP_FATAL",
     send_unseen                                                                                                                                                          },
    {QpRequestError,           "operation_that_the_qp_does_not_permit",  At::Responder, kReadOnlyQp,
     "QP_REQ_ERR",                                                                                                                   operation_that_the_qp_does_not_permit},
    {QpRequestError,           "last_packet_without_a_first",            At::Responder, kRc,                  "QP_REQ_ERR",
     last_packet_without_a_first                                                                                                                                          },
    {QpAccessError,            "no_such_rkey",                           At::Responder, kRc,                  "QP_ACCESS_ERR",       no_such_rkey                         },
    {QpAccessError,            "misaligned_atomic",                      At::Responder, kRc,                  "QP_ACCESS_ERR",       misaligned_atomic                    },
    {QpAccessError,
     "more_reads_than_responder_resources",                              At::Responder,
     {.max_rd_atomic = 0},
     "QP_ACCESS_ERR",                                                                                                                more_reads_than_responder_resources  },
    {QpAccessError,            "write_with_other_bytes_than_dmalen",     At::Responder, kRc,                  "QP_ACCESS_ERR",
     write_with_other_bytes_than_dmalen                                                                                                                                   },
    {QpAccessError,            "xrc_srq_that_is_not",                    At::Responder, kXrc,                 "QP_ACCESS_ERR",
     xrc_srq_that_is_not                                                                                                                                                  },
    {CommunicationEstablished, "rc_request_in_rtr",                      At::Responder, kRc,                  "COMM_EST",            send_to_rtr                          },
    {CommunicationEstablished, "uc_request_in_rtr",                      At::Responder, kUc,                  "COMM_EST",            send_to_rtr                          },
    {CommunicationEstablished, "xrc_request_in_rtr",                     At::Responder, kXrc,                 "COMM_EST",            send_to_rtr                          },
    {SqDrained,                "rc_last_send_acknowledged",              At::Requester, kRc,                  "SQ_DRAINED",
     send_before_draining                                                                                                                                                 },
    {SqDrained,                "uc_nothing_outstanding",                 At::Requester, kUc,                  "SQ_DRAINED",          drain                                },
    {SqDrained,                "ud_nothing_outstanding",                 At::Requester, kUd,                  "SQ_DRAINED",          drain                                },
    {SqDrained,                "xrc_last_send_acknowledged",             At::Requester, kXrc,                 "SQ_DRAINED",
     send_before_draining                                                                                                                                                 },
    {SrqError,                 "receives_of_an_xrc_srq_cannot_complete", At::Responder, with_small_cqs(kXrc),
     "CQ_ERR SRQ_ERR QP_FATAL",                                                                                                      send_twice                           },
    {SrqLimitReached,          "fewer_receives_than_the_limit",          At::Responder, kShared,              "SRQ_LIMIT_REACHED",
     fewer_receives_than_the_limit                                                                                                                                        },
    {QpLastWqeReached,         "qp_with_an_srq_in_error",                At::Responder, kShared,              "QP_LAST_WQE_REACHED",
     qp_with_an_srq_in_error                                                                                                                                              },
});

struct ExporterPrivate {
  AsyncEventType event;
  const char* where;
};
constexpr const char* kDriver = "the driver raises it: host/process_tables_test.cc";
constexpr const char* kMigration = "path_migration_test.cc";
constexpr auto kElsewhere = std::to_array<ExporterPrivate>({
    {PathMigrated,       kMigration},
    {PathMigrationError, kMigration},
    {DeviceFatal,        kDriver   },
    {PortActive,         kDriver   },
    {PortError,          kDriver   },
    {LidChange,          kDriver   },
    {PKeyChange,         kDriver   },
    {SmChange,           kDriver   },
    {ClientReregister,   kDriver   },
    {GidChange,          kDriver   },
});

class AsyncEvents : public ::testing::TestWithParam<std::size_t> {};

TEST_P(AsyncEvents, HaveTheirCauseAndAreSeenExactly) {
  const Cause& row = kCauses[GetParam()];
  LoopbackPair pair{row.options};
  pair.connect();
  ASSERT_NO_FATAL_FAILURE(row.cause(pair));
  ASSERT_TRUE(pair.run());
  Side& side = row.at == At::Requester ? pair.a() : pair.b();
  std::string seen;
  for (const AsyncEvent& event : side.events.events) {
    seen += (seen.empty() ? "" : " ") + name(event.type);
    if (event.type == CqError) {
      EXPECT_TRUE(event.cq == side.send_cq || event.cq == side.recv_cq);
    } else if (event.type == SrqError || event.type == SrqLimitReached) {
      EXPECT_EQ(event.srq, side.srq);
    } else {
      EXPECT_EQ(event.qp, side.qp);
    }
  }
  EXPECT_EQ(seen, row.all);
  EXPECT_NE(seen.find(name(row.event)), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Table, AsyncEvents, ::testing::Range(std::size_t{0}, kCauses.size()),
                         [](const auto& test) {
                           const Cause& row = kCauses[test.param];
                           return name(row.event) + "_" + row.how;
                         });

TEST(AsyncEventTable, HasEveryEventOnce) {
  for (auto value = static_cast<std::uint8_t>(CqError);
       value <= static_cast<std::uint8_t>(GidChange); ++value) {
    const auto event = static_cast<AsyncEventType>(value);
    const bool caused =
        std::ranges::any_of(kCauses, [&](const Cause& row) { return row.event == event; });
    const auto elsewhere = std::ranges::count(kElsewhere, event, &ExporterPrivate::event);
    EXPECT_EQ((caused ? 1 : 0) + elsewhere, 1) << "event " << int{value};
  }
}

/// The requester gets an answer even though the receiver's CQ is dead, but nothing beyond that.
TEST(AsyncEventOfQp, FatalErrorOfTheResponderIsARemoteOperationErrorAtTheRequester) {
  for (const QpType type : {QpType::Rc, QpType::XrcInitiator}) {
    LoopbackPair pair{
        {.type = type, .cq_depth = 2}
    };
    pair.connect();
    pair.b().recv_cq->push({}, false);
    send_twice(pair);
    ASSERT_TRUE(pair.run());
    const auto done = pair.poll(*pair.a().send_cq);
    ASSERT_EQ(done.size(), 2U);
    EXPECT_EQ(done[0].status, WcStatus::Success);
    EXPECT_EQ(done[1].status, WcStatus::RemoteOperationError);
    EXPECT_EQ(pair.b().qp->query().state, QpState::Err);
  }
}

/// As documented for SRQ_ERR: the SRQ can only be destroyed.
TEST(AsyncEventOfSrq, ErrorEndsItsUse) {
  LoopbackPair pair{with_small_cqs(kXrc)};
  pair.connect();
  send_twice(pair);
  ASSERT_TRUE(pair.run());
  Side& b = pair.b();
  EXPECT_FALSE(b.srq->post({.wr_id = 1, .sges = {}}));
  QpInit init;
  init.type = QpType::XrcTarget;
  init.xrcd = b.xrcd;
  auto* const other = *b.hca.create_qp(init);
  EXPECT_TRUE(b.hca.destroy_qp(*b.qp));
  b.qp = other;
  to_state(*pair.a().qp, QpState::Reset);
  pair.connect();
  b.events.events.clear();
  request(pair, {.wr_id = 3});
  ASSERT_TRUE(pair.run());
  EXPECT_EQ(b.events.count(QpFatal), 1U) << "the next QP that needs a receive of it";
  EXPECT_EQ(b.events.count(SrqError), 0U) << "told already";
  EXPECT_TRUE(b.hca.destroy_srq(*b.srq));
}

/// All are under way when the QP enters SQD, and each is answered by itself.
TEST(AsyncEventOfQp, DrainedIsToldAfterTheLastAnswer) {  // T-QP-4
  constexpr std::size_t kRequests = 3;
  for (const WrOpcode opcode : {WrOpcode::RdmaWrite, WrOpcode::RdmaRead}) {
    SCOPED_TRACE(static_cast<int>(opcode));
    LoopbackPair pair;
    pair.connect();
    pair.filter = [](InFlightPacket& in_flight_packet) {
      in_flight_packet.header.ack_request = in_flight_packet.flow == Flow::Request;
      return true;
    };
    for (std::uint64_t i = 0; i < kRequests; ++i) {
      request(pair, {.opcode = opcode, .wr_id = i});
    }
    pair.collect();
    ASSERT_EQ(pair.wire.size(), kRequests);
    drain(pair);
    for (std::size_t i = 0; i < kRequests; ++i) {
      ASSERT_TRUE(pair.deliver_one());
      pair.collect();
    }
    ASSERT_EQ(pair.wire.size(), kRequests) << "one answer each";
    std::size_t completed = 0;
    for (std::size_t i = 1; i <= kRequests; ++i) {
      EXPECT_EQ(pair.a().events.count(SqDrained), 0U);
      ASSERT_TRUE(pair.deliver_one());
      completed += pair.poll(*pair.a().send_cq).size();
      EXPECT_EQ(completed, i);
    }
    EXPECT_EQ(pair.a().events.count(SqDrained), 1U);
    ASSERT_TRUE(pair.run());
    EXPECT_EQ(pair.a().events.count(SqDrained), 1U) << "once";
  }
}

/// EnableSqdAsyncNotify applies to one transition to SQD, not to later ones.
TEST(AsyncEventOfQp, DrainedIsToldForTheWayThatAskedForIt) {  // T-QP-4
  for (const QpType type : {QpType::Rc, QpType::Uc, QpType::Ud}) {
    LoopbackPair pair{{.type = type}};
    pair.connect();
    drain(pair);
    EXPECT_EQ(pair.a().events.count(SqDrained), 1U);
    to_state(*pair.a().qp, QpState::Rts);
    to_state(*pair.a().qp, QpState::Sqd);
    EXPECT_EQ(pair.a().events.count(SqDrained), 1U);
  }
}

}  // namespace
}  // namespace weft::hca
