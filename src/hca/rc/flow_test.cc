#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "hca/testing/loopback_pair.h"
#include "hca/testing/work_requests.h"
#include "wire/encodings.h"

/// What paces RC, credits and RNR waits, and how a queue ends (R-RVT-9 to R-RVT-14).
namespace weft::hca {
namespace {

using testing::InFlightPacket;
using testing::LoopbackPair;
using testing::receive;
using testing::request;
using testing::Side;
using testing::to_state;

[[nodiscard]] std::size_t requests(const LoopbackPair& pair) {
  return static_cast<std::size_t>(
      std::ranges::count(pair.sent, Flow::Request, &InFlightPacket::flow));
}

/// Delivers everything without letting timers expire.
void settle(LoopbackPair& pair) {
  do {
    pair.collect();
  } while (pair.deliver_one());
}

TEST(RcResponder, TellsTheCreditsOfItsFreeReceives) {  // T-RVT-3, R-RVT-9
  for (const std::uint32_t free : {0U, 1U, 2U, 5U, 20U, 63U}) {
    LoopbackPair pair;
    pair.connect();
    for (std::uint32_t i = 0; i < free + 1; ++i) {
      receive(pair.b(), 64);
    }
    request(pair, {});
    settle(pair);
    const wire::Syndrome syndrome = pair.sent.back().header.extension.response.aeth.syndrome;
    ASSERT_EQ(syndrome.kind(), wire::SyndromeKind::Ack);
    EXPECT_EQ(syndrome.code(), wire::credit_code(free)) << free;
  }
  LoopbackPair shared{{.shared_receive_queue = true}};
  shared.connect();
  receive(shared.b(), 64);
  request(shared, {});
  settle(shared);
  EXPECT_EQ(shared.sent.back().header.extension.response.aeth.syndrome.code(),
            wire::kUnlimitedCredits);
}

/// A SEND may start if SSN <= LSN + 1; a WRITE always may, and advances the LSN with the SSN.
TEST(RcRequester, HoldsSendsButNoWritesWhenCreditsEnd) {  // T-RVT-4, R-RVT-10
  LoopbackPair pair;
  pair.connect();
  for (int i = 0; i < 4; ++i) {
    receive(pair.b(), 64);
  }
  request(pair, {});
  settle(pair);  // three receives are left, and a knows
  pair.filter = [](InFlightPacket& in_flight_packet) {
    return in_flight_packet.flow == Flow::Request;
  };
  pair.sent.clear();
  for (int i = 0; i < 4; ++i) {
    request(pair, {});
  }
  pair.collect();
  EXPECT_EQ(requests(pair), 4U) << "three, and one as a probe";
  for (int i = 0; i < 5; ++i) {
    request(pair, {.opcode = WrOpcode::RdmaWrite});
  }
  pair.collect();
  EXPECT_EQ(requests(pair), 9U) << "WRITEs take no receive";
  request(pair, {});
  pair.collect();
  EXPECT_EQ(requests(pair), 9U) << "the next SEND waits";
  receive(pair.b(), 64);
  receive(pair.b(), 64);
  pair.filter = nullptr;
  settle(pair);
  EXPECT_EQ(requests(pair), 10U) << "more credit came";
}

TEST(RcRequester, WaitsTheRnrTimeBetweenItsTries) {  // T-RVT-5, R-RVT-11
  LoopbackPair pair{
      {.rnr_retry = 3, .min_rnr_timer = 12}
  };
  pair.connect();
  std::vector<Instant> tries;
  pair.filter = [&](InFlightPacket& in_flight_packet) {
    if (in_flight_packet.flow == Flow::Request) {
      tries.push_back(pair.now());
    }
    return true;
  };
  request(pair, {});
  ASSERT_TRUE(pair.run());
  ASSERT_EQ(tries.size(), 4U);
  for (std::size_t i = 1; i < tries.size(); ++i) {
    const Duration gap = tries[i] - tries[i - 1];
    EXPECT_GE(gap, Duration::microseconds(640));
    EXPECT_LE(gap, Duration::milliseconds(2));
  }
  const auto done = pair.poll(*pair.a().send_cq);
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].status, WcStatus::RnrRetryExceeded);
}

/// The receive in use completes with the error, the ones behind it as flushed.
TEST(RcResponder, EndsTheReceiveInUseWithTheErrorAndFlushesTheOthers) {  // T-RVT-7, R-RVT-14
  for (const bool has_srq : {false, true}) {
    LoopbackPair pair{{.shared_receive_queue = has_srq}};
    pair.connect();
    Side& b = pair.b();
    for (std::uint64_t i = 0; i < 3; ++i) {
      receive(b, 1000, i);
    }
    pair.filter = [](InFlightPacket& in_flight_packet) {
      if (in_flight_packet.header.opcode == wire::Opcode::RcSendLast) {
        in_flight_packet.header.opcode = in_flight_packet.header.last_opcode =
            wire::Opcode::RcRdmaWriteLast;
      }
      return true;
    };
    request(pair, {.length = 400});
    ASSERT_TRUE(pair.run());
    to_state(*b.qp, QpState::Err);  // again: no further effect
    const auto done = pair.poll(*b.recv_cq);
    ASSERT_EQ(done.size(), has_srq ? 1U : 3U) << "an SRQ's receives are for others";
    EXPECT_EQ(done[0].status, WcStatus::LocalQpOperationError);
    for (std::size_t i = 0; i < done.size(); ++i) {
      EXPECT_EQ(done[i].wr_id, i);
      EXPECT_TRUE(i == 0 || done[i].status == WcStatus::WorkRequestFlushed);
    }
    EXPECT_EQ(b.events.count(AsyncEventType::QpLastWqeReached), has_srq ? 1U : 0U);
  }
}

/// Draining as R-DRN-3 describes it, with user verbs: enter ERR, then post a marker to each queue.
TEST(Rc, IsDrainedOnceTheMarkersHaveCompleted) {  // R-DRN-3, part of T-DRN-1
  constexpr std::uint64_t kOutstanding = 1'000;
  constexpr std::uint64_t kMarker = 9'999;
  LoopbackPair pair{
      {.depth = 1'024, .cq_depth = 1'100}
  };
  pair.connect();
  pair.filter = [](InFlightPacket&) { return false; };  // the peer is dead
  for (std::uint64_t i = 0; i < kOutstanding; ++i) {
    request(pair, {.opcode = WrOpcode::RdmaWrite, .wr_id = i});
    receive(pair.a(), 8, i);
  }
  pair.collect();
  to_state(*pair.a().qp, QpState::Err);
  request(pair, {.opcode = WrOpcode::RdmaWrite, .wr_id = kMarker});
  receive(pair.a(), 8, kMarker);
  for (CompletionQueue* const cq : {pair.a().send_cq, pair.a().recv_cq}) {
    const auto done = pair.poll(*cq);
    ASSERT_EQ(done.size(), kOutstanding + 1);
    for (std::uint64_t i = 0; i < kOutstanding; ++i) {
      ASSERT_EQ(done[i].wr_id, i);
      ASSERT_EQ(done[i].status, WcStatus::WorkRequestFlushed);
    }
    EXPECT_EQ(done.back().wr_id, kMarker);
  }
  ASSERT_TRUE(pair.run());
  EXPECT_TRUE(pair.poll(*pair.a().send_cq).empty()) << "none follows";
  EXPECT_TRUE(pair.poll(*pair.a().recv_cq).empty());
}

/// T-MR-3 and part of T-MR-2, for keys registered through user verbs.
TEST(Rc, ReachesAllOfARegionAndNotAByteMoreNorAfterItsKeyIsInvalidated) {  // T-MR-3, part of T-MR-2
  constexpr std::uint32_t kBytes = 1U << 16;
  for (const bool invalidated : {false, true}) {
    for (const std::uint64_t excess : {0U, 1U}) {
      LoopbackPair pair;
      pair.connect();
      std::ranges::fill(pair.a().memory, std::byte{0x5A});
      if (invalidated) {
        SendWr wr = testing::signaled(WrOpcode::LocalInvalidate, {});
        wr.rkey = pair.b().region->rkey;
        testing::post(*pair.b().qp, wr);
        ASSERT_TRUE(pair.run());
      }
      request(pair, {.opcode = WrOpcode::RdmaWrite, .length = kBytes, .offset = excess});
      ASSERT_TRUE(pair.run());
      const auto done = pair.poll(*pair.a().send_cq);
      ASSERT_EQ(done.size(), 1U);
      const bool is_allowed = !invalidated && excess == 0;
      EXPECT_EQ(done[0].status, is_allowed ? WcStatus::Success : WcStatus::RemoteAccessError);
      EXPECT_EQ(std::ranges::count(pair.b().memory, std::byte{0x5A}), is_allowed ? kBytes : 0);
    }
  }
}

}  // namespace
}  // namespace weft::hca
