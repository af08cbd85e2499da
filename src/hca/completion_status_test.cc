#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "hca/memory_window.h"
#include "hca/testing/loopback_pair.h"
#include "hca/testing/work_requests.h"

/// The table of completion statuses (ibv_poll_cq(3), IBTA vol 1 §11.6.2): provokes each status that
/// these transport services have, and gives the reason for each that they lack. tests/verbs covers
/// those that programs can provoke.
namespace weft::hca {
namespace {

using testing::InFlightPacket;
using testing::LoopbackPair;
using testing::PairOptions;
using testing::receive;
using testing::request;
using testing::Side;
using testing::signaled;
using testing::to_state;

enum class At : std::uint8_t { Requester, Responder };

struct Cause {
  const char* name;  // as in the documentation, without IBV_WC_
  WcStatus status;
  const char* how;
  At at;
  PairOptions options;
  const char* reason;  // part of the reason that WEFT_EXPLAIN=1 shows
  void (*cause)(LoopbackPair&);
};

constexpr PairOptions kRc{};
constexpr PairOptions kUc{.type = QpType::Uc};
constexpr PairOptions kUd{.type = QpType::Ud};
constexpr PairOptions kXrc{.type = QpType::XrcInitiator};
constexpr PairOptions kReadOnlyQp{.qp_access = Access::RemoteRead};
constexpr PairOptions kImpatient{.retry_count = 1, .rnr_retry = 1};
constexpr PairOptions kNotWritable{.region_access = Access::RemoteRead};

void post_bad_receive(Side& side) {
  const std::array sges{
      Sge{.address = side.address(), .length = 512, .lkey = LKey{0x999}}
  };
  ASSERT_TRUE(side.qp->post_recv({.wr_id = 100, .sges = sges}));
}

void send_from_nowhere(LoopbackPair& pair) {
  const std::array sges{
      Sge{.address = 0x10000, .length = 8, .lkey = LKey{0x999}}
  };
  SendWr wr = signaled(WrOpcode::Send, sges);
  if (pair.a().qp->type() == QpType::Ud) {
    AddressVector address;
    address.dlid = Lid{2};
    address.port = PortNumber{1};
    wr.ah = *pair.a().hca.create_ah(*pair.a().pd, address);
  }
  testing::post(*pair.a().qp, wr);
}

/// Packets with opcode `is` arrive with opcode `becomes`.
void pretend(LoopbackPair& pair, wire::Opcode is, wire::Opcode becomes) {
  pair.filter = [is, becomes](InFlightPacket& in_flight_packet) {
    if (in_flight_packet.header.opcode == is) {
      in_flight_packet.header.opcode = in_flight_packet.header.last_opcode = becomes;
    }
    return true;
  };
}

using enum WcStatus;
void message_longer_than_receive(LoopbackPair& pair) {
  receive(pair.b(), 300);
  request(pair, {.length = 400});
}

void message_breaks_off(LoopbackPair& pair) {
  receive(pair.b(), 1000);
  pretend(pair, wire::Opcode::RcSendLast, wire::Opcode::RcRdmaWriteLast);
  request(pair, {.length = 400});
}

void read_into_memory_without_local_write(LoopbackPair& pair) {
  request(pair, {.opcode = WrOpcode::RdmaRead});
}

void receive_through_a_bad_lkey(LoopbackPair& pair) {
  post_bad_receive(pair.b());
  request(pair, {});
}

void local_invalidate_of_nobodys_key(LoopbackPair& pair) {
  SendWr wr = signaled(WrOpcode::LocalInvalidate, {});
  wr.rkey = RKey{0x1234'5678};
  testing::post(*pair.a().qp, wr);
}

void send_outstanding_when_the_qp_goes_to_error(LoopbackPair& pair) {
  pair.filter = [](InFlightPacket&) { return false; };
  request(pair, {});
  pair.collect();
  to_state(*pair.a().qp, QpState::Err);
}

void receive_posted_when_the_qp_goes_to_error(LoopbackPair& pair) {
  receive(pair.b(), 8);
  to_state(*pair.b().qp, QpState::Err);
}

void send_posted_in_error(LoopbackPair& pair) {
  to_state(*pair.a().qp, QpState::Err);
  request(pair, {});
}

void receive_posted_in_error(LoopbackPair& pair) {
  to_state(*pair.b().qp, QpState::Err);
  receive(pair.b(), 8);
}

void region_without_bind_access(LoopbackPair& pair) {
  const MemoryWindow& window = **pair.a().hca.allocate_window(*pair.a().pd, WindowType::Type2);
  const WindowBinding binding{.rkey = window.rkey(),
                              .lkey = pair.a().region->lkey,
                              .address = pair.a().address(),
                              .length = 8,
                              .access = Access::RemoteRead};
  SendWr wr = signaled(WrOpcode::BindMemoryWindow, {});
  wr.binding = &binding;
  testing::post(*pair.a().qp, wr);
}

void read_answered_with_another_length(LoopbackPair& pair) {
  pair.filter = [](InFlightPacket& in_flight_packet) {
    if (in_flight_packet.header.opcode == wire::Opcode::RcRdmaReadResponseOnly) {
      in_flight_packet.payload.resize(in_flight_packet.payload.size() - 4);
    }
    return true;
  };
  request(pair, {.opcode = WrOpcode::RdmaRead});
}

void atomic_answered_as_a_read(LoopbackPair& pair) {
  pretend(pair, wire::Opcode::RcAtomicAcknowledge, wire::Opcode::RcRdmaReadResponseOnly);
  request(pair, {.opcode = WrOpcode::FetchAdd});
}

void write_with_immediate_to_a_key_that_is_not(LoopbackPair& pair) {
  receive(pair.b(), 0);
  request(pair, {.opcode = WrOpcode::RdmaWriteWithImmediate, .rkey_change = 1});
}

void operation_that_the_peer_does_not_permit(LoopbackPair& pair) {
  request(pair, {.opcode = WrOpcode::RdmaWrite});
}

void misaligned_atomic(LoopbackPair& pair) {
  request(pair, {.opcode = WrOpcode::FetchAdd, .offset = 4});
}

void write_past_the_end_of_a_region(LoopbackPair& pair) {
  request(pair, {.opcode = WrOpcode::RdmaWrite, .offset = (1U << 16) - 7});
}

void peer_is_silent(LoopbackPair& pair) {
  pair.filter = [](InFlightPacket&) { return false; };
  request(pair, {});
}

void peer_posts_no_receive(LoopbackPair& pair) { request(pair, {}); }

void peer_answers_as_if_it_were_rd(LoopbackPair& pair) {
  pair.filter = [](InFlightPacket& in_flight_packet) {
    if (in_flight_packet.flow == Flow::Response) {
      in_flight_packet.header.extension.response.aeth.syndrome =
          wire::Syndrome::nak(wire::NakCode::InvalidRdRequest);
    }
    return true;
  };
  request(pair, {.opcode = WrOpcode::RdmaWrite});
}

constexpr auto kCauses = std::to_array<Cause>({
    {"LOC_LEN_ERR",        LocalLengthError,         "rc_message_longer_than_receive",             At::Responder, kRc,
     "longer than the receive WQE's buffers",                                                                                                                  message_longer_than_receive               },
    {"LOC_LEN_ERR",        LocalLengthError,         "uc_message_longer_than_receive",             At::Responder, kUc,
     "does not fit its receive WQE",                                                                                                                           message_longer_than_receive               },
    {"LOC_LEN_ERR",        LocalLengthError,         "xrc_message_longer_than_receive",            At::Responder, kXrc,
     "longer than the receive WQE's buffers",                                                                                                                  message_longer_than_receive               },
    {"LOC_QP_OP_ERR",      LocalQpOperationError,    "message_breaks_off",                         At::Responder, kRc,
     "another request before the message's last packet",                                                                                                       message_breaks_off                        },
    {"LOC_PROT_ERR",       LocalProtectionError,     "rc_send_through_a_bad_lkey",                 At::Requester, kRc,
     "no local access through L_Key 0x999",                                                                                                                    send_from_nowhere                         },
    {"LOC_PROT_ERR",       LocalProtectionError,     "uc_send_through_a_bad_lkey",                 At::Requester, kUc,
     "no local access through L_Key 0x999",                                                                                                                    send_from_nowhere                         },
    {"LOC_PROT_ERR",       LocalProtectionError,     "ud_send_through_a_bad_lkey",                 At::Requester, kUd,
     "no local access through L_Key 0x999",                                                                                                                    send_from_nowhere                         },
    {"LOC_PROT_ERR",       LocalProtectionError,     "read_into_memory_without_local_write",       At::Requester,
     kNotWritable,                                                                                                             "no local write through L_Key", read_into_memory_without_local_write      },
    {"LOC_PROT_ERR",       LocalProtectionError,     "rc_receive_through_a_bad_lkey",              At::Responder, kRc,
     "no local write through L_Key 0x999",                                                                                                                     receive_through_a_bad_lkey                },
    {"LOC_PROT_ERR",       LocalProtectionError,     "uc_receive_through_a_bad_lkey",              At::Responder, kUc,
     "no local write through L_Key 0x999",                                                                                                                     receive_through_a_bad_lkey                },
    {"LOC_PROT_ERR",       LocalProtectionError,     "ud_receive_through_a_bad_lkey",              At::Responder, kUd,
     "no local write through L_Key 0x999",                                                                                                                     receive_through_a_bad_lkey                },
    {"LOC_PROT_ERR",       LocalProtectionError,     "local_invalidate_of_nobodys_key",            At::Requester, kRc,
     "key 0x12345678 is nobody's",                                                                                                                             local_invalidate_of_nobodys_key           },
    {"WR_FLUSH_ERR",       WorkRequestFlushed,       "send_outstanding_when_the_qp_goes_to_error",
     At::Requester,                                                                                               kRc,         "the consumer asked for it",    send_outstanding_when_the_qp_goes_to_error},
    {"WR_FLUSH_ERR",       WorkRequestFlushed,       "receive_posted_when_the_qp_goes_to_error",   At::Responder,
     kUd,                                                                                                                      "the consumer asked for it",    receive_posted_when_the_qp_goes_to_error  },
    {"WR_FLUSH_ERR",       WorkRequestFlushed,       "send_posted_in_error",                       At::Requester, kUc,
     "in ERR: what is posted there completes as flushed",                                                                                                      send_posted_in_error                      },
    {"WR_FLUSH_ERR",       WorkRequestFlushed,       "receive_posted_in_error",                    At::Responder, kRc,
     "in ERR: what is posted there completes as flushed",                                                                                                      receive_posted_in_error                   },
    {"MW_BIND_ERR",        MemoryWindowBindError,    "region_without_bind_access",                 At::Requester, kRc,
     "binds no window",                                                                                                                                        region_without_bind_access                },
    {"BAD_RESP_ERR",       BadResponse,              "read_answered_with_another_length",          At::Requester, kRc,
     "another length than was asked for",                                                                                                                      read_answered_with_another_length         },
    {"BAD_RESP_ERR",       BadResponse,              "atomic_answered_as_a_read",                  At::Requester, kRc,
     "a READ response came for a request that takes none",                                                                                                     atomic_answered_as_a_read                 },
    {"LOC_ACCESS_ERR",     LocalAccessError,         "write_with_immediate_to_a_key_that_is_not",  At::Responder,
     kRc,                                                                                                                      "no memory has this R_Key",     write_with_immediate_to_a_key_that_is_not },
    {"REM_INV_REQ_ERR",    RemoteInvalidRequest,     "operation_that_the_peer_does_not_permit",
     At::Requester,                                                                                               kReadOnlyQp, "invalid request",              operation_that_the_peer_does_not_permit   },
    {"REM_INV_REQ_ERR",    RemoteInvalidRequest,     "misaligned_atomic",                          At::Requester, kXrc,
     "invalid request",                                                                                                                                        misaligned_atomic                         },
    {"REM_ACCESS_ERR",     RemoteAccessError,        "write_past_the_end_of_a_region",             At::Requester, kRc,
     "remote access",                                                                                                                                          write_past_the_end_of_a_region            },
    {"REM_OP_ERR",         RemoteOperationError,     "receive_of_the_peer_is_bad",                 At::Requester, kRc,
     "operational error",                                                                                                                                      receive_through_a_bad_lkey                },
    {"RETRY_EXC_ERR",      RetryExceeded,            "peer_is_silent",                             At::Requester, kImpatient,
     "no acknowledgement within the timeout",                                                                                                                  peer_is_silent                            },
    {"RNR_RETRY_EXC_ERR",  RnrRetryExceeded,         "peer_posts_no_receive",                      At::Requester, kImpatient,
     "the peer had no receive WQE",                                                                                                                            peer_posts_no_receive                     },
    {"REM_INV_RD_REQ_ERR", RemoteInvalidReadRequest, "peer_answers_as_if_it_were_rd",              At::Requester,
     kReadOnlyQp,                                                                                                              "RD",                           peer_answers_as_if_it_were_rd             },
});

struct Absent {
  const char* name;
  WcStatus status;
  const char* why;
};
constexpr auto kAbsent = std::to_array<Absent>({
    {"LOC_EEC_OP_ERR",    LocalEecOperationError, "EE contexts are of Reliable Datagram"                      },
    {"LOC_RDD_VIOL_ERR",  LocalRddViolation,      "so are RD domains"                                         },
    {"REM_ABORT_ERR",     RemoteAborted,
     "of Reliable Datagram; and for UC with an SRQ, but here, as in Linux's rdmavt, the receive of "
     "a "
     "message that broke off stays for the QP's next one"                                                     },
    {"INV_EECN_ERR",      InvalidEecn,            "EE contexts are of Reliable Datagram"                      },
    {"INV_EEC_STATE_ERR", InvalidEecState,        "EE contexts are of Reliable Datagram"                      },
    {"FATAL_ERR",         Fatal,                  "an HCA in software has no parts that fail"                 },
    {"RESP_TIMEOUT_ERR",  ResponseTimeout,
     "not in the specification: of hardware that bounds its own requests"                                     },
    {"GENERAL_ERR",       GeneralError,           "not in the specification: of hardware that knows no better"},
});

class CompletionStatus : public ::testing::TestWithParam<std::size_t> {};

TEST_P(CompletionStatus, HasItsCauseAndIsSeenExactly) {
  const Cause& row = kCauses[GetParam()];
  LoopbackPair pair{row.options};
  pair.connect();
  ASSERT_NO_FATAL_FAILURE(row.cause(pair));
  ASSERT_TRUE(pair.run());
  Side& side = row.at == At::Requester ? pair.a() : pair.b();
  const auto done = pair.poll(row.at == At::Requester ? *side.send_cq : *side.recv_cq);
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].status, row.status) << "status " << static_cast<int>(done[0].status);
  EXPECT_EQ(done[0].wr_id, row.at == At::Requester ? 1U : 100U);
  EXPECT_EQ(done[0].qpn, side.qp->number());
  const bool sqe = row.at == At::Requester && row.status != WorkRequestFlushed &&
                   (side.qp->type() == QpType::Uc || side.qp->type() == QpType::Ud);
  EXPECT_EQ(side.qp->query().state, sqe ? QpState::Sqe : QpState::Err);
  std::string all;
  for (const std::string& reason : side.events.reasons) {
    all += reason + "\n";
  }
  EXPECT_NE(all.find(row.reason), std::string::npos) << "explained was:\n" << all;
}

INSTANTIATE_TEST_SUITE_P(Table, CompletionStatus, ::testing::Range(std::size_t{0}, kCauses.size()),
                         [](const auto& test) {
                           const Cause& row = kCauses[test.param];
                           return std::string{row.name} + "_" + row.how;
                         });

TEST(CompletionStatusTable, HasEveryStatusOnce) {
  for (auto value = static_cast<std::uint8_t>(LocalLengthError);
       value <= static_cast<std::uint8_t>(GeneralError); ++value) {
    const auto status = static_cast<WcStatus>(value);
    const bool caused =
        std::ranges::any_of(kCauses, [&](const Cause& row) { return row.status == status; });
    const auto absent = std::ranges::count(kAbsent, status, &Absent::status);
    EXPECT_EQ((caused ? 1 : 0) + absent, 1) << "status " << int{value};
  }
}

}  // namespace
}  // namespace weft::hca
