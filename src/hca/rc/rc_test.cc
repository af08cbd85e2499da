#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "hca/testing/loopback_pair.h"

namespace weft::hca {
namespace {

using testing::InFlightPacket;
using testing::LoopbackPair;
using testing::PairOptions;
using testing::Side;

void fill(Side& side) {
  for (std::size_t i = 0; i < side.memory.size(); ++i) {
    side.memory[i] = static_cast<std::byte>(i * 7 + i / 256);
  }
}

SendWr send(std::span<const Sge> sges, WrOpcode opcode = WrOpcode::Send, std::uint64_t wr_id = 1) {
  SendWr wr;
  wr.wr_id = wr_id;
  wr.opcode = opcode;
  wr.flags = Send::Signaled;
  wr.sges = sges;
  return wr;
}

void post_receive(Side& side, std::size_t offset, std::uint32_t length, std::uint64_t wr_id = 100) {
  const std::array sges{side.sge(offset, length)};
  ASSERT_TRUE(side.qp->post_recv({.wr_id = wr_id, .sges = sges}));
}

void post(Side& side, const SendWr& wr) {
  const auto posted = side.qp->post_send(wr);
  ASSERT_TRUE(posted) << posted.error().reason;
}

WcStatus only_status(LoopbackPair& pair, CompletionQueue& cq) {
  const auto completions = pair.poll(cq);
  EXPECT_EQ(completions.size(), 1U);
  return completions.empty() ? WcStatus::GeneralError : completions[0].status;
}

bool same(const Side& x, std::size_t x_at, const Side& y, std::size_t y_at, std::size_t length) {
  return std::equal(x.memory.begin() + static_cast<std::ptrdiff_t>(x_at),
                    x.memory.begin() + static_cast<std::ptrdiff_t>(x_at + length),
                    y.memory.begin() + static_cast<std::ptrdiff_t>(y_at));
}

TEST(Rc, SendsMessagesOfEverySizeAroundTheMtu) {
  for (const std::uint32_t train : {0U, 1024U}) {
    for (const std::uint32_t length : {0U, 1U, 255U, 256U, 257U, 1000U, 4096U}) {
      LoopbackPair pair{{.train_bytes = train}};
      fill(pair.a());
      pair.connect();
      post_receive(pair.b(), 0x2000, 8192);
      const std::array sges{pair.a().sge(0, length)};
      post(pair.a(), send(sges));
      ASSERT_TRUE(pair.run());
      EXPECT_EQ(only_status(pair, *pair.a().send_cq), WcStatus::Success);
      const auto received = pair.poll(*pair.b().recv_cq);
      ASSERT_EQ(received.size(), 1U);
      EXPECT_EQ(received[0].byte_length, length);
      EXPECT_EQ(received[0].wr_id, 100U);
      EXPECT_TRUE(same(pair.a(), 0, pair.b(), 0x2000, length));
    }
  }
}

TEST(Rc, WritesAndReadsAcrossPackets) {
  for (const WrOpcode opcode : {WrOpcode::RdmaWrite, WrOpcode::RdmaRead}) {
    for (const std::uint32_t train : {0U, 2048U}) {
      LoopbackPair pair{{.train_bytes = train}};
      Side& source = opcode == WrOpcode::RdmaWrite ? pair.a() : pair.b();
      Side& target = opcode == WrOpcode::RdmaWrite ? pair.b() : pair.a();
      fill(source);
      pair.connect();
      const std::array sges{pair.a().sge(16, 3000), pair.a().sge(3016, 2001)};
      SendWr wr = send(sges, opcode);
      wr.remote_address = pair.b().address(16);
      wr.rkey = pair.b().region->rkey;
      post(pair.a(), wr);
      ASSERT_TRUE(pair.run());
      EXPECT_EQ(only_status(pair, *pair.a().send_cq), WcStatus::Success);
      EXPECT_TRUE(same(source, 16, target, 16, 5001));
      EXPECT_EQ(target.memory[5017], std::byte{0});
    }
  }
}

TEST(Rc, ExecutesAtomicsAndReturnsTheOriginal) {
  LoopbackPair pair;
  pair.connect();
  const std::uint64_t start = 40;
  copy_bytes(pair.b().memory, bytes_of(start));
  const std::array sges{pair.a().sge(64, 8)};
  SendWr add = send(sges, WrOpcode::FetchAdd);
  add.remote_address = pair.b().address(0);
  add.rkey = pair.b().region->rkey;
  add.compare_add = 2;
  post(pair.a(), add);
  ASSERT_TRUE(pair.run());
  SendWr swap = add;
  swap.opcode = WrOpcode::CompareSwap;
  swap.compare_add = 42;
  swap.swap = 7;
  const std::array other{pair.a().sge(72, 8)};
  swap.sges = other;
  post(pair.a(), swap);
  ASSERT_TRUE(pair.run());
  std::array<std::uint64_t, 2> originals{};
  std::memcpy(originals.data(), pair.a().memory.data() + 64, 16);
  EXPECT_EQ(originals[0], 40U);
  EXPECT_EQ(originals[1], 42U);
  std::uint64_t now = 0;
  std::memcpy(&now, pair.b().memory.data(), 8);
  EXPECT_EQ(now, 7U);
}

TEST(RcResponder, ExecutesARepeatedAtomicOnlyOnce) {
  LoopbackPair pair;
  pair.connect();
  int dropped = 0;
  pair.filter = [&](InFlightPacket& in_flight_packet) {
    return !(in_flight_packet.flow == Flow::Response && dropped++ == 0);
  };
  const std::array sges{pair.a().sge(64, 8)};
  SendWr add = send(sges, WrOpcode::FetchAdd);
  add.remote_address = pair.b().address(0);
  add.rkey = pair.b().region->rkey;
  add.compare_add = 5;
  post(pair.a(), add);
  ASSERT_TRUE(pair.run());
  EXPECT_EQ(only_status(pair, *pair.a().send_cq), WcStatus::Success);
  EXPECT_GE(dropped, 2);
  std::uint64_t now = 0;
  std::memcpy(&now, pair.b().memory.data(), 8);
  EXPECT_EQ(now, 5U);
}

TEST(RcRequester, AsksForAReadAgainFromItsMiddle) {
  LoopbackPair pair;
  fill(pair.b());
  pair.connect();
  bool dropped = false;
  pair.filter = [&](InFlightPacket& in_flight_packet) {
    const bool third = in_flight_packet.flow == Flow::Response &&
                       in_flight_packet.header.psn == Psn{0x102} && !dropped;
    dropped = dropped || third;
    return !third;
  };
  const std::array sges{pair.a().sge(0, 1280)};
  SendWr read = send(sges, WrOpcode::RdmaRead);
  read.remote_address = pair.b().address(0);
  read.rkey = pair.b().region->rkey;
  post(pair.a(), read);
  ASSERT_TRUE(pair.run());
  EXPECT_EQ(only_status(pair, *pair.a().send_cq), WcStatus::Success);
  EXPECT_TRUE(same(pair.a(), 0, pair.b(), 0, 1280));
  std::vector<InFlightPacket> requests;
  std::ranges::copy_if(pair.sent, std::back_inserter(requests),
                       [](const InFlightPacket& f) { return f.flow == Flow::Request; });
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_EQ(requests[1].header.psn, Psn{0x102});
  EXPECT_EQ(requests[1].header.extension.reth.dma_length, 1280U - 512U);
}

TEST(RcResponder, NaksAGapOnlyOnce) {
  LoopbackPair pair;
  pair.connect();
  const std::array sges{pair.a().sge(0, 8)};
  for (int i = 0; i < 5; ++i) {
    post_receive(pair.b(), 0x1000, 64);
  }
  post(pair.a(), send(sges));
  ASSERT_TRUE(pair.run());  // the requester now knows the credits
  for (int i = 0; i < 4; ++i) {
    post(pair.a(), send(sges));
  }
  bool dropped = false;
  pair.filter = [&](InFlightPacket& in_flight_packet) {
    const bool first = in_flight_packet.flow == Flow::Request && !dropped;
    dropped = dropped || first;
    return !first;
  };
  ASSERT_TRUE(pair.run());
  const auto naks = std::ranges::count_if(pair.sent, [](const InFlightPacket& in_flight_packet) {
    return in_flight_packet.flow == Flow::Response &&
           in_flight_packet.header.extension.response.aeth.syndrome.kind() ==
               wire::SyndromeKind::Nak;
  });
  EXPECT_EQ(naks, 1);
  EXPECT_EQ(pair.poll(*pair.b().recv_cq).size(), 5U);
}

TEST(RcRequester, RetriesWithoutReceiveWqesAsOftenAsItMay) {  // T-RVT-5
  // With 0, a receiver that is late once ends the QP.
  for (const std::uint8_t retries : {std::uint8_t{0}, std::uint8_t{3}}) {
    LoopbackPair pair{{.rnr_retry = retries}};
    pair.connect();
    const std::array sges{pair.a().sge(0, 8)};
    post(pair.a(), send(sges));
    ASSERT_TRUE(pair.run());
    const auto tries = std::ranges::count_if(
        pair.sent, [](const InFlightPacket& f) { return f.flow == Flow::Request; });
    EXPECT_EQ(tries, 1 + retries);
    EXPECT_EQ(only_status(pair, *pair.a().send_cq), WcStatus::RnrRetryExceeded);
    EXPECT_EQ(pair.a().qp->query().state, QpState::Err);
  }
}

TEST(RcRequester, WaitsForReceivesWithoutEndWhenRnrRetryIsSeven) {
  LoopbackPair pair;
  pair.connect();
  const std::array sges{pair.a().sge(0, 8)};
  post(pair.a(), send(sges));
  EXPECT_FALSE(pair.run(Duration::milliseconds(50)));
  post_receive(pair.b(), 0x1000, 64);
  EXPECT_TRUE(pair.run());
  EXPECT_EQ(only_status(pair, *pair.a().send_cq), WcStatus::Success);
}

TEST(RcRequester, EndsInRetryExceededWhenThePeerIsSilent) {
  LoopbackPair pair{{.retry_count = 2}};
  pair.connect();
  pair.filter = [](InFlightPacket&) { return false; };
  const std::array sges{pair.a().sge(0, 8)};
  post(pair.a(), send(sges, WrOpcode::Send, 1));
  post(pair.a(), send(sges, WrOpcode::Send, 2));
  ASSERT_TRUE(pair.run());
  const auto completions = pair.poll(*pair.a().send_cq);
  ASSERT_EQ(completions.size(), 2U);
  EXPECT_EQ(completions[0].status, WcStatus::RetryExceeded);
  EXPECT_EQ(completions[1].status, WcStatus::WorkRequestFlushed);
}

TEST(RcRequester, CountsNoTimeoutOnAReliableCarrierUntilSomethingWasLost) {
  LoopbackPair pair{
      {.loss_model = LossModel::Reliable, .retry_count = 1}
  };
  pair.connect();
  pair.filter = [](InFlightPacket&) { return false; };
  const std::array sges{pair.a().sge(0, 8)};
  post(pair.a(), send(sges));
  EXPECT_FALSE(pair.run(Duration::seconds(10)));
  EXPECT_EQ(pair.a().qp->query().state, QpState::Rts);
  for (int i = 0; i < 3; ++i) {
    pair.a().qp->report_loss();
    EXPECT_TRUE(pair.fire_next_timer() || i > 0);
    pair.collect();
  }
  EXPECT_EQ(only_status(pair, *pair.a().send_cq), WcStatus::RetryExceeded);
}

struct RefusalCase {
  const char* name;
  WrOpcode opcode;
  std::uint32_t length;
  AccessFlags qp_access;
  std::uint64_t address_offset;
  std::uint32_t key_change;
  WcStatus expected;
};

class RcRefusal : public ::testing::TestWithParam<RefusalCase> {};

TEST_P(RcRefusal, EndsInTheStatusOfTheBrokenRule) {  // R-RVT-20, part of T-RVT-10
  const RefusalCase& refusal = GetParam();
  LoopbackPair pair{{.qp_access = refusal.qp_access}};
  pair.connect();
  const std::array sges{pair.a().sge(0, refusal.length)};
  SendWr wr = send(sges, refusal.opcode);
  wr.remote_address = pair.b().address(refusal.address_offset);
  wr.rkey = RKey{pair.b().region->rkey.value() ^ refusal.key_change};
  const std::vector<std::byte> before = pair.b().memory;
  post(pair.a(), wr);
  ASSERT_TRUE(pair.run());
  EXPECT_EQ(only_status(pair, *pair.a().send_cq), refusal.expected);
  EXPECT_EQ(pair.a().qp->query().state, QpState::Err);
  EXPECT_EQ(pair.b().qp->query().state, QpState::Err);
  EXPECT_EQ(pair.b().memory, before);
  EXPECT_FALSE(pair.b().events.reasons.empty());
}

constexpr AccessFlags kAll =
    AccessFlags{Access::RemoteWrite} | Access::RemoteRead | Access::RemoteAtomic;
INSTANTIATE_TEST_SUITE_P(
    Rules, RcRefusal,
    ::testing::Values(
        RefusalCase{"write_key", WrOpcode::RdmaWrite, 8, kAll, 0, 1, WcStatus::RemoteAccessError},
        RefusalCase{"write_range", WrOpcode::RdmaWrite, 8, kAll, (1U << 16) - 7, 0,
                    WcStatus::RemoteAccessError},
        RefusalCase{"write_right", WrOpcode::RdmaWrite, 8, AccessFlags{}, 0, 0,
                    WcStatus::RemoteInvalidRequest},
        RefusalCase{"read_key", WrOpcode::RdmaRead, 8, kAll, 0, 0x80, WcStatus::RemoteAccessError},
        RefusalCase{"read_right", WrOpcode::RdmaRead, 8, Access::RemoteWrite, 0, 0,
                    WcStatus::RemoteInvalidRequest},
        RefusalCase{"atomic_alignment", WrOpcode::FetchAdd, 8, kAll, 4, 0,
                    WcStatus::RemoteInvalidRequest},
        RefusalCase{"atomic_right", WrOpcode::CompareSwap, 8, Access::RemoteRead, 0, 0,
                    WcStatus::RemoteInvalidRequest}),
    [](const auto& test) { return test.param.name; });

TEST(RcResponder, NeverChecksTheKeyOfAZeroLengthWrite) {  // C9-88
  for (const std::uint32_t key : {0U, 0xDEAD'BEEFU}) {    // T-SRPT-9
    LoopbackPair pair;
    pair.connect();
    SendWr wr = send({}, WrOpcode::RdmaWrite);
    wr.rkey = RKey{key};
    post(pair.a(), wr);
    ASSERT_TRUE(pair.run());
    EXPECT_EQ(only_status(pair, *pair.a().send_cq), WcStatus::Success);
  }
}

TEST(RcResponder, RefusesAMessageLongerThanTheReceiveBuffer) {
  LoopbackPair pair;
  pair.connect();
  post_receive(pair.b(), 0, 300);
  const std::array sges{pair.a().sge(0, 400)};
  post(pair.a(), send(sges));
  ASSERT_TRUE(pair.run());
  EXPECT_EQ(only_status(pair, *pair.a().send_cq), WcStatus::RemoteInvalidRequest);
  EXPECT_EQ(only_status(pair, *pair.b().recv_cq), WcStatus::LocalLengthError);
}

TEST(RcResponder, EndsInRemoteOperationErrorWhenItsOwnReceiveIsBad) {
  LoopbackPair pair;
  pair.connect();
  const Sge bad{.address = pair.b().address(), .length = 64, .lkey = LKey{0x999}};
  ASSERT_TRUE(pair.b().qp->post_recv({
      .wr_id = 1, .sges = {&bad, 1}
  }));
  const std::array sges{pair.a().sge(0, 64)};
  post(pair.a(), send(sges));
  ASSERT_TRUE(pair.run());
  EXPECT_EQ(only_status(pair, *pair.a().send_cq), WcStatus::RemoteOperationError);
  EXPECT_EQ(only_status(pair, *pair.b().recv_cq), WcStatus::LocalProtectionError);
}

TEST(RcResponder, EndsAReceiveInLocalQpOperationErrorWhenAMessageBreaksOff) {
  LoopbackPair pair;
  pair.connect();
  post_receive(pair.b(), 0, 1000);
  pair.filter = [](InFlightPacket& in_flight_packet) {
    if (in_flight_packet.header.opcode == wire::Opcode::RcSendLast) {
      in_flight_packet.header.opcode = in_flight_packet.header.last_opcode =
          wire::Opcode::RcRdmaWriteLast;
    }
    return true;
  };
  const std::array sges{pair.a().sge(0, 400)};
  post(pair.a(), send(sges));
  ASSERT_TRUE(pair.run());
  EXPECT_EQ(only_status(pair, *pair.a().send_cq), WcStatus::RemoteInvalidRequest);
  EXPECT_EQ(only_status(pair, *pair.b().recv_cq), WcStatus::LocalQpOperationError);
}

TEST(RcResponder, EndsAReceiveInLocalAccessErrorWhenAWriteWithImmediateMayNotGoWhereItAims) {
  LoopbackPair pair;
  pair.connect();
  post_receive(pair.b(), 0, 0);
  const std::array sges{pair.a().sge(0, 64)};
  SendWr wr = send(sges, WrOpcode::RdmaWriteWithImmediate);
  wr.remote_address = pair.b().address();
  wr.rkey = RKey{pair.b().region->rkey.value() ^ 1U};
  post(pair.a(), wr);
  ASSERT_TRUE(pair.run());
  EXPECT_EQ(only_status(pair, *pair.a().send_cq), WcStatus::RemoteAccessError);
  EXPECT_EQ(only_status(pair, *pair.b().recv_cq), WcStatus::LocalAccessError);
}

TEST(RcRequester, EndsInBadResponseWhenAReadIsAnsweredWithAnotherLength) {
  LoopbackPair pair;
  pair.connect();
  pair.filter = [](InFlightPacket& in_flight_packet) {
    if (in_flight_packet.header.opcode == wire::Opcode::RcRdmaReadResponseOnly) {
      in_flight_packet.payload.resize(in_flight_packet.payload.size() - 4);
    }
    return true;
  };
  const std::array sges{pair.a().sge(0, 64)};
  SendWr wr = send(sges, WrOpcode::RdmaRead);
  wr.remote_address = pair.b().address();
  wr.rkey = pair.b().region->rkey;
  post(pair.a(), wr);
  ASSERT_TRUE(pair.run());
  EXPECT_EQ(only_status(pair, *pair.a().send_cq), WcStatus::BadResponse);
  EXPECT_EQ(pair.a().qp->query().state, QpState::Err);
}

TEST(RcRequester, EndsInBadResponseWhenAnAtomicIsAnsweredAsARead) {
  LoopbackPair pair;
  pair.connect();
  pair.filter = [](InFlightPacket& in_flight_packet) {
    if (in_flight_packet.header.opcode == wire::Opcode::RcAtomicAcknowledge) {
      in_flight_packet.header.opcode = in_flight_packet.header.last_opcode =
          wire::Opcode::RcRdmaReadResponseOnly;
    }
    return true;
  };
  const std::array sges{pair.a().sge(0, 8)};
  SendWr wr = send(sges, WrOpcode::FetchAdd);
  wr.remote_address = pair.b().address();
  wr.rkey = pair.b().region->rkey;
  post(pair.a(), wr);
  ASSERT_TRUE(pair.run());
  EXPECT_EQ(only_status(pair, *pair.a().send_cq), WcStatus::BadResponse);
}

TEST(RcRequester, FailsLocallyWithoutSendingWhenAnLKeyIsBad) {
  LoopbackPair pair;
  pair.connect();
  const std::array sges{
      Sge{.address = 0x10000, .length = 8, .lkey = LKey{0x999}}
  };
  post(pair.a(), send(sges));
  ASSERT_TRUE(pair.run());
  EXPECT_EQ(only_status(pair, *pair.a().send_cq), WcStatus::LocalProtectionError);
  EXPECT_TRUE(pair.sent.empty());
}

TEST(Rc, FlushesBothQueuesInOrderOnTheWayToError) {  // T-QP-3
  LoopbackPair pair;
  pair.connect();
  pair.filter = [](InFlightPacket&) { return false; };
  const std::array sges{pair.a().sge(0, 8)};
  for (std::uint64_t i = 0; i < 3; ++i) {
    post(pair.a(), send(sges, WrOpcode::Send, i));
    post_receive(pair.a(), 0, 8, 10 + i);
  }
  pair.collect();
  QpAttributes attributes;
  attributes.state = QpState::Err;
  ASSERT_TRUE(pair.a().qp->modify(attributes, QpAttribute::State));
  const auto sends = pair.poll(*pair.a().send_cq);
  const auto receives = pair.poll(*pair.a().recv_cq);
  ASSERT_EQ(sends.size(), 3U);
  ASSERT_EQ(receives.size(), 3U);
  for (std::uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(sends[i].wr_id, i);
    EXPECT_EQ(sends[i].status, WcStatus::WorkRequestFlushed);
    EXPECT_EQ(receives[i].wr_id, 10 + i);
    EXPECT_EQ(receives[i].status, WcStatus::WorkRequestFlushed);
  }
  post(pair.a(), send(sges, WrOpcode::Send, 9));
  EXPECT_EQ(only_status(pair, *pair.a().send_cq), WcStatus::WorkRequestFlushed);
  post_receive(pair.a(), 0, 8, 19);
  EXPECT_EQ(only_status(pair, *pair.a().recv_cq), WcStatus::WorkRequestFlushed);
}

TEST(Rc, ReportsADrainedSendQueueOnlyWhenAsked) {  // T-QP-4
  for (const bool asked : {false, true}) {
    LoopbackPair pair;
    pair.connect();
    post_receive(pair.b(), 0, 64);
    const std::array sges{pair.a().sge(0, 8)};
    post(pair.a(), send(sges));
    pair.collect();
    QpAttributes attributes;
    attributes.state = QpState::Sqd;
    attributes.enable_sqd_async_notify = asked;
    ASSERT_TRUE(pair.a().qp->modify(
        attributes, QpAttributeMask{QpAttribute::State} | QpAttribute::EnableSqdAsyncNotify));
    EXPECT_EQ(pair.a().events.count(AsyncEventType::SqDrained), 0U);
    ASSERT_TRUE(pair.run());
    EXPECT_EQ(pair.a().events.count(AsyncEventType::SqDrained), asked ? 1U : 0U);
  }
}

TEST(RcRequester, StaysWithinTheCreditsOfThePeerButProbesOnce) {  // T-RVT-4
  LoopbackPair pair;
  pair.connect();
  for (int i = 0; i < 3; ++i) {
    post_receive(pair.b(), 0, 64);
  }
  const std::array sges{pair.a().sge(0, 8)};
  for (std::uint64_t i = 0; i < 8; ++i) {
    post(pair.a(), send(sges, WrOpcode::Send, i));
  }
  pair.collect();
  EXPECT_EQ(pair.sent.size(), 1U);  // the peer's credits are unknown: one message may start
  while (pair.deliver_one()) {
  }
  pair.collect();  // the acknowledgement: two receives are left
  while (pair.deliver_one()) {
  }
  pair.sent.clear();
  pair.collect();
  EXPECT_EQ(pair.sent.size(), 3U);  // two, and one more as a probe
}

/// Loss, duplication and reordering: data arrives exactly once and in order, and every QP finishes.
class RcSoak : public ::testing::TestWithParam<int> {};

TEST_P(RcSoak, DeliversExactlyOnceAndInOrderOverABadNetwork) {
  const auto seed = static_cast<std::uint64_t>(GetParam());
  Random random{seed};
  LoopbackPair pair{
      {.train_bytes = seed % 2 == 0 ? 0U : 1024U, .depth = 32, .first_psn = Psn{0xFFFFF0}}
  };
  pair.connect();
  pair.filter = [&](InFlightPacket& in_flight_packet) {
    if (random.chance(1, 20)) {
      return false;
    }
    if (random.chance(1, 30)) {
      pair.wire.push_back(in_flight_packet);
    }
    if (random.chance(1, 30) && !pair.wire.empty()) {
      pair.wire.push_front(in_flight_packet);
      return false;
    }
    return true;
  };
  std::uint64_t counter = 0;
  std::uint64_t expected_counter = 0;
  std::uint64_t posted = 0;
  std::uint64_t received = 0;
  std::uint64_t completed = 0;
  for (int round = 0; round < 60; ++round) {
    std::array<std::byte, 1500> data{};
    const auto length = static_cast<std::uint32_t>(random.below(1400) + 1);
    std::ranges::generate(data, [&] { return static_cast<std::byte>(random()); });
    copy_bytes(std::span{pair.a().memory}.subspan(0, 1500), data);
    const std::array sges{pair.a().sge(0, length)};
    switch (random.below(4)) {
      case 0: {
        post_receive(pair.b(), 0x3000, 2000, received);
        post(pair.a(), send(sges, WrOpcode::Send, posted++));
        ASSERT_TRUE(pair.run());
        const auto completions = pair.poll(*pair.b().recv_cq);
        ASSERT_EQ(completions.size(), 1U);
        EXPECT_EQ(completions[0].wr_id, received++);
        EXPECT_EQ(completions[0].byte_length, length);
        EXPECT_TRUE(same(pair.a(), 0, pair.b(), 0x3000, length));
        break;
      }
      case 1: {
        SendWr wr = send(sges, WrOpcode::RdmaWrite, posted++);
        wr.remote_address = pair.b().address(0x5000);
        wr.rkey = pair.b().region->rkey;
        post(pair.a(), wr);
        ASSERT_TRUE(pair.run());
        EXPECT_TRUE(same(pair.a(), 0, pair.b(), 0x5000, length));
        break;
      }
      case 2: {
        const std::array target{pair.a().sge(0x6000, length)};
        SendWr wr = send(target, WrOpcode::RdmaRead, posted++);
        wr.remote_address = pair.b().address(0x5000);
        wr.rkey = pair.b().region->rkey;
        post(pair.a(), wr);
        const std::array second{pair.a().sge(0x8000, 700)};
        wr.sges = second;
        wr.wr_id = posted++;
        post(pair.a(), wr);
        ASSERT_TRUE(pair.run());
        EXPECT_TRUE(same(pair.a(), 0x6000, pair.b(), 0x5000, length));
        EXPECT_TRUE(same(pair.a(), 0x8000, pair.b(), 0x5000, 700));
        break;
      }
      default: {
        const std::array target{pair.a().sge(0x7000, 8)};
        SendWr wr = send(target, WrOpcode::FetchAdd, posted++);
        wr.remote_address = pair.b().address(0x100);
        wr.rkey = pair.b().region->rkey;
        wr.compare_add = counter = random.below(1000);
        expected_counter += counter;
        post(pair.a(), wr);
        ASSERT_TRUE(pair.run());
        std::uint64_t value = 0;
        std::memcpy(&value, pair.b().memory.data() + 0x100, 8);
        EXPECT_EQ(value, expected_counter);
        break;
      }
    }
    for (const Wc& wc : pair.poll(*pair.a().send_cq)) {
      ASSERT_EQ(wc.status, WcStatus::Success);
      EXPECT_EQ(wc.wr_id, completed++);
    }
    EXPECT_EQ(completed, posted);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RcSoak, ::testing::Range(0, 100));

}  // namespace
}  // namespace weft::hca
