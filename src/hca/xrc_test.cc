#include "hca/xrc.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "hca/packet_record.h"
#include "hca/packet_wire.h"
#include "hca/qp_state_table.h"
#include "hca/testing/loopback_pair.h"
#include "hca/wire_length.h"

namespace weft::hca {
namespace {

using testing::InFlightPacket;
using testing::LoopbackPair;
using testing::PairOptions;
using testing::Side;

/// An initiator on a; a target and its XRC SRQ on b.
class Xrc : public ::testing::Test {
 protected:
  explicit Xrc(const PairOptions& options = {.type = QpType::XrcInitiator}) : pair_(options) {
    pair_.connect();
    for (std::size_t i = 0; i < pair_.a().memory.size(); ++i) {
      pair_.a().memory[i] = static_cast<std::byte>(i * 7 + i / 256);
    }
  }

  void post_receive(SharedReceiveQueue& srq, std::uint32_t length, std::uint64_t wr_id) {
    const std::array sges{pair_.b().sge(0x2000, length)};
    ASSERT_TRUE(srq.post({.wr_id = wr_id, .sges = sges}));
  }
  SendWr request(WrOpcode opcode, std::span<const Sge> sges) {
    SendWr wr;
    wr.opcode = opcode;
    wr.flags = Send::Signaled;
    wr.sges = sges;
    wr.remote_address = pair_.b().address(0);
    wr.rkey = pair_.b().region->rkey;
    wr.xrc_srqn = pair_.b().srq->xrc().number;
    wr.immediate = 0x1234;
    return wr;
  }
  void send(const SendWr& wr) {
    const auto posted = pair_.a().qp->post_send(wr);
    ASSERT_TRUE(posted) << posted.error().reason;
    ASSERT_TRUE(pair_.run());
  }
  WcStatus sent() {
    const auto completions = pair_.poll(*pair_.a().send_cq);
    EXPECT_EQ(completions.size(), 1U);
    return completions.empty() ? WcStatus::GeneralError : completions[0].status;
  }

  LoopbackPair pair_;
};

TEST_F(Xrc, SendsToTheSrqThatTheRequestNames) {
  auto* const other_cq = *pair_.b().hca.create_cq(16);
  auto* const other =
      *pair_.b().hca.create_xrc_srq(*pair_.b().pd, *pair_.b().xrcd, *other_cq, 16, 1);
  ASSERT_NE(other->xrc().number, pair_.b().srq->xrc().number);
  post_receive(*pair_.b().srq, 2000, 1);
  post_receive(*other, 2000, 2);
  const std::array sges{pair_.a().sge(0, 1000)};
  SendWr wr = request(WrOpcode::Send, sges);
  wr.xrc_srqn = other->xrc().number;
  send(wr);
  EXPECT_EQ(sent(), WcStatus::Success);
  EXPECT_TRUE(pair_.poll(*pair_.b().recv_cq).empty());
  const auto received = pair_.poll(*other_cq);
  ASSERT_EQ(received.size(), 1U);
  EXPECT_EQ(received[0].wr_id, 2U);
  EXPECT_EQ(received[0].byte_length, 1000U);
  EXPECT_EQ(received[0].qpn, pair_.b().qp->number());
  EXPECT_EQ(received[0].src_qpn, pair_.a().qp->number());
  EXPECT_TRUE(std::equal(pair_.a().memory.begin(), pair_.a().memory.begin() + 1000,
                         pair_.b().memory.begin() + 0x2000));
}

TEST_F(Xrc, CarriesEveryOperationWithAnXrcethOnEachRequestPacket) {
  pair_.b().memory[0] = std::byte{40};
  const std::array sges{pair_.a().sge(64, 1000)};
  const std::array word{pair_.a().sge(0x4000, 8)};
  for (const WrOpcode opcode : {WrOpcode::Send, WrOpcode::SendWithImmediate, WrOpcode::RdmaWrite,
                                WrOpcode::RdmaWriteWithImmediate, WrOpcode::RdmaRead,
                                WrOpcode::FetchAdd, WrOpcode::CompareSwap}) {
    post_receive(*pair_.b().srq, 2000, 1);
    const bool is_atomic = opcode == WrOpcode::FetchAdd || opcode == WrOpcode::CompareSwap;
    send(request(opcode, is_atomic ? std::span<const Sge>{word} : std::span<const Sge>{sges}));
    EXPECT_EQ(sent(), WcStatus::Success) << static_cast<int>(opcode);
  }
  for (const InFlightPacket& in_flight_packet : pair_.sent) {
    const wire::OpcodeInfo& info = *wire::opcode_info(in_flight_packet.header.opcode);
    EXPECT_EQ(info.transport, wire::Transport::Xrc) << info.name;
    EXPECT_EQ(info.headers.has(wire::ExtensionHeader::Xrceth), !wire::is_response(info.operation));
    if (!wire::is_response(info.operation)) {
      EXPECT_EQ(in_flight_packet.header.xrc_srqn, pair_.b().srq->xrc().number) << info.name;
    }
  }
}

class XrcTrains : public Xrc {
 protected:
  XrcTrains() : Xrc({.type = QpType::XrcInitiator, .train_bytes = 2048}) {}
};

TEST_F(XrcTrains, SurviveRingAndWire) {
  const std::array sges{pair_.a().sge(64, 3000)};
  send(request(WrOpcode::RdmaWrite, sges));
  EXPECT_EQ(sent(), WcStatus::Success);
  const InFlightPacket& train = pair_.sent.front();
  ASSERT_EQ(train.header.packet_count, 8U);
  std::vector<std::byte> record(kMaxRecordHeaderBytes);
  record.resize(encode_record_header(train.header, record));
  record.insert(record.end(), train.payload.begin(), train.payload.end());
  const auto decoded = decode_record(record);
  ASSERT_TRUE(decoded) << decoded.error().reason;
  EXPECT_EQ(decoded->header.xrc_srqn, train.header.xrc_srqn);
  std::uint64_t words = 0;
  for (std::uint32_t i = 0; i < decoded->header.packet_count; ++i) {
    std::vector<std::byte> bytes;
    to_wire(single_of_train(*decoded, i), bytes);
    words += (bytes.size() - 2) / 4;  // without the VCRC
    const auto again = from_wire(bytes);
    ASSERT_TRUE(again) << again.error().reason;
    EXPECT_EQ(again->header.xrc_srqn, train.header.xrc_srqn) << "packet " << i;
  }
  EXPECT_EQ(packet_length_words(train.header, train.payload.size()), words);
}

TEST_F(Xrc, RecordsWithAWideSrqNumberAreRefused) {
  const std::array sges{pair_.a().sge(64, 8)};
  send(request(WrOpcode::RdmaWrite, sges));
  PacketHeader header = pair_.sent.front().header;
  header.xrc_srqn = 1U << 24;
  std::vector<std::byte> record(kMaxRecordHeaderBytes);
  record.resize(encode_record_header(header, record));
  record.resize(record.size() + 8);
  EXPECT_FALSE(decode_record(record));
}

TEST_F(Xrc, RefusesAnSrqThatDoesNotExist) {
  const std::array sges{pair_.a().sge(0, 8)};
  SendWr wr = request(WrOpcode::Send, sges);
  wr.xrc_srqn = 0xFF'FFFF;
  send(wr);
  EXPECT_EQ(sent(), WcStatus::RemoteAccessError);
  EXPECT_EQ(pair_.b().qp->query().state, QpState::Err);
  EXPECT_EQ(pair_.b().events.count(AsyncEventType::QpAccessError), 1U);
}

TEST_F(Xrc, RefusesAnSrqOfAnotherDomain) {
  auto* const domain = *pair_.b().hca.open_xrc_domain();
  auto* const other =
      *pair_.b().hca.create_xrc_srq(*pair_.b().pd, *domain, *pair_.b().recv_cq, 16, 1);
  post_receive(*other, 64, 2);
  const std::array sges{pair_.a().sge(0, 8)};
  SendWr wr = request(WrOpcode::RdmaWrite, sges);
  wr.xrc_srqn = other->xrc().number;
  send(wr);
  EXPECT_EQ(sent(), WcStatus::RemoteAccessError);
  EXPECT_EQ(other->size(), 1U);
}

TEST_F(Xrc, RefusesMessagesWhosePacketsNameDifferentSrqs) {
  auto* const other =
      *pair_.b().hca.create_xrc_srq(*pair_.b().pd, *pair_.b().xrcd, *pair_.b().recv_cq, 16, 1);
  post_receive(*pair_.b().srq, 2000, 1);
  pair_.filter = [&](InFlightPacket& in_flight_packet) {
    if (in_flight_packet.header.opcode == wire::Opcode::XrcSendLast) {
      in_flight_packet.header.xrc_srqn = other->xrc().number;
    }
    return true;
  };
  const std::array sges{pair_.a().sge(0, 600)};
  send(request(WrOpcode::Send, sges));
  EXPECT_EQ(sent(), WcStatus::RemoteAccessError);
  const auto received = pair_.poll(*pair_.b().recv_cq);
  ASSERT_EQ(received.size(), 1U);
  EXPECT_EQ(received[0].status, WcStatus::LocalQpOperationError);
}

/// Annex A14: a target QP has no PD; memory is accessed through the SRQ's.
TEST_F(Xrc, ReachesTheMemoryOfTheSrqsProtectionDomainOnly) {
  auto* const pd = *pair_.b().hca.allocate_pd();
  auto* const other =
      *pair_.b().hca.create_xrc_srq(*pd, *pair_.b().xrcd, *pair_.b().recv_cq, 16, 1);
  const std::array sges{pair_.a().sge(0, 300)};
  SendWr wr = request(WrOpcode::RdmaWrite, sges);
  send(wr);
  EXPECT_EQ(sent(), WcStatus::Success);
  wr.xrc_srqn = other->xrc().number;
  send(wr);
  EXPECT_EQ(sent(), WcStatus::RemoteAccessError);
}

TEST_F(Xrc, WaitsForAReceiverThatIsNotReady) {
  int rnr_naks = 0;
  pair_.filter = [&](InFlightPacket& in_flight_packet) {
    if (in_flight_packet.header.opcode == wire::Opcode::XrcAcknowledge &&
        in_flight_packet.header.extension.response.aeth.syndrome.kind() ==
            wire::SyndromeKind::RnrNak) {
      ++rnr_naks;
      post_receive(*pair_.b().srq, 64, 9);
    }
    return true;
  };
  const std::array sges{pair_.a().sge(0, 8)};
  send(request(WrOpcode::Send, sges));
  EXPECT_EQ(sent(), WcStatus::Success);
  EXPECT_EQ(rnr_naks, 1);
}

TEST_F(Xrc, RepeatsWhatWasLost) {
  int dropped = 0;
  pair_.filter = [&](InFlightPacket& in_flight_packet) {
    return in_flight_packet.header.opcode != wire::Opcode::XrcRdmaReadResponseMiddle ||
           ++dropped != 2;
  };
  const std::array sges{pair_.a().sge(64, 1500)};
  pair_.b().memory[700] = std::byte{77};
  send(request(WrOpcode::RdmaRead, sges));
  EXPECT_EQ(sent(), WcStatus::Success);
  EXPECT_GT(dropped, 1);
  EXPECT_EQ(pair_.a().memory[764], std::byte{77});
}

TEST_F(Xrc, HalvesThatAQpDoesNotHaveTakeNothing) {
  const std::array sges{pair_.a().sge(0, 8)};
  EXPECT_FALSE(pair_.a().qp->post_recv({.wr_id = 1, .sges = sges}));
  EXPECT_FALSE(pair_.b().qp->post_recv({.wr_id = 1, .sges = sges}));
  EXPECT_FALSE(pair_.b().qp->post_send(request(WrOpcode::Send, sges)));
  // A request addressed to the initiator, whoever sent it.
  send(request(WrOpcode::RdmaWrite, sges));
  EXPECT_EQ(sent(), WcStatus::Success);
  InFlightPacket request_packet = pair_.sent.front();
  request_packet.header.dest_qp = pair_.a().qp->number();
  std::swap(request_packet.header.slid, request_packet.header.dlid);
  pair_.a().hca.handle_packet(PortNumber{1}, request_packet.packet(), pair_.now());
  EXPECT_FALSE(pair_.a().qp->has_responses());
}

TEST_F(Xrc, AnInitiatorInErrorFlushesItsSends) {
  const std::array sges{pair_.a().sge(0, 8)};
  QpAttributes error;
  error.state = QpState::Err;
  ASSERT_TRUE(pair_.a().qp->post_send(request(WrOpcode::RdmaWrite, sges)));
  ASSERT_TRUE(pair_.a().qp->modify(error, QpAttribute::State));
  EXPECT_EQ(sent(), WcStatus::WorkRequestFlushed);
}

/// A target that enters the error state flushes the receive in use; the SRQ's others remain.
TEST_F(Xrc, ATargetInErrorFlushesTheMessageUnderWay) {
  post_receive(*pair_.b().srq, 2000, 1);
  post_receive(*pair_.b().srq, 2000, 2);
  const std::array sges{pair_.a().sge(0, 600)};
  ASSERT_TRUE(pair_.a().qp->post_send(request(WrOpcode::Send, sges)));
  pair_.collect();
  ASSERT_TRUE(pair_.deliver_one());
  EXPECT_FALSE(pair_.b().hca.destroy_srq(*pair_.b().srq)) << "a message is filling its receive";
  QpAttributes error;
  error.state = QpState::Err;
  ASSERT_TRUE(pair_.b().qp->modify(error, QpAttribute::State));
  const auto flushed = pair_.poll(*pair_.b().recv_cq);
  ASSERT_EQ(flushed.size(), 1U);
  EXPECT_EQ(flushed[0].wr_id, 1U);
  EXPECT_EQ(flushed[0].status, WcStatus::WorkRequestFlushed);
  EXPECT_EQ(flushed[0].qpn, pair_.b().qp->number());
  EXPECT_EQ(pair_.b().srq->size(), 1U);
  EXPECT_TRUE(pair_.b().hca.destroy_srq(*pair_.b().srq));
}

TEST_F(Xrc, ObjectsInUseStay) {
  Hca& hca = pair_.b().hca;
  EXPECT_FALSE(hca.close_xrc_domain(*pair_.b().xrcd));
  EXPECT_FALSE(hca.destroy_cq(*pair_.b().recv_cq));
  EXPECT_TRUE(hca.destroy_srq(*pair_.b().srq));
  EXPECT_TRUE(hca.destroy_cq(*pair_.b().recv_cq));
  EXPECT_FALSE(hca.close_xrc_domain(*pair_.b().xrcd)) << "the target QP is still of it";
  EXPECT_TRUE(hca.destroy_qp(*pair_.b().qp));
  EXPECT_TRUE(hca.close_xrc_domain(*pair_.b().xrcd));
}

TEST_F(Xrc, AnXrcSrqServesNoOtherQp) {
  Side& b = pair_.b();
  QpInit init;
  init.pd = b.pd;
  init.send_cq = b.send_cq;
  init.recv_cq = b.recv_cq;
  init.srq = b.srq;
  EXPECT_FALSE(b.hca.create_qp(init));
  init.type = QpType::XrcTarget;
  EXPECT_FALSE(b.hca.create_qp(init)) << "without a domain";
}

TEST_F(Xrc, AnSrqThatIsGoneIsNotFound) {
  const std::uint32_t number = pair_.b().srq->xrc().number;
  ASSERT_TRUE(pair_.b().hca.destroy_srq(*pair_.b().srq));
  const std::array sges{pair_.a().sge(0, 8)};
  pair_.b().srq =
      *pair_.b().hca.create_xrc_srq(*pair_.b().pd, *pair_.b().xrcd, *pair_.b().recv_cq, 4, 1);
  SendWr wr = request(WrOpcode::Send, sges);
  EXPECT_NE(wr.xrc_srqn, number) << "numbers are not used again soon";
  wr.xrc_srqn = number;
  send(wr);
  EXPECT_EQ(sent(), WcStatus::RemoteAccessError);
}

TEST(XrcStates, EachHalfHasItsOwnAttributes) {  // R-QP-3
  using A = QpAttribute;
  const auto required = [](QpType type, QpState from, QpState to) {
    return qp_transition(type, from, to)->required;
  };
  EXPECT_TRUE(required(QpType::XrcTarget, QpState::Init, QpState::Rtr).has(A::MinRnrTimer));
  EXPECT_FALSE(required(QpType::XrcInitiator, QpState::Init, QpState::Rtr).has(A::MinRnrTimer));
  EXPECT_TRUE(required(QpType::XrcInitiator, QpState::Rtr, QpState::Rts).has(A::RnrRetry));
  EXPECT_FALSE(required(QpType::XrcTarget, QpState::Rtr, QpState::Rts).has(A::RnrRetry));
  EXPECT_TRUE(required(QpType::XrcTarget, QpState::Rtr, QpState::Rts).has(A::Timeout));
  const auto optional = [](QpType type) {
    return qp_transition(type, QpState::Sqd, QpState::Sqd)->optional;
  };
  EXPECT_TRUE(optional(QpType::XrcInitiator).has(A::RetryCount));
  EXPECT_FALSE(optional(QpType::XrcInitiator).has(A::MaxDestRdAtomic));
  EXPECT_TRUE(optional(QpType::XrcTarget).has(A::MaxDestRdAtomic));
  EXPECT_FALSE(optional(QpType::XrcTarget).has(A::RetryCount));
  EXPECT_EQ(qp_transition(QpType::XrcInitiator, QpState::Sqe, QpState::Rts), nullptr);
}

}  // namespace
}  // namespace weft::hca
