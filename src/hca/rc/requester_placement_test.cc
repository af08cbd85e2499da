// Direct placement by the engines of RC (hca/placement.h): what is placed instead of sent, in which
// order, and when that ends.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "hca/memory_window.h"
#include "hca/placement.h"
#include "hca/testing/loopback_pair.h"
#include "hca/testing/work_requests.h"
#include "hca/wire_length.h"

namespace weft::hca {
namespace {

using testing::InFlightPacket;
using testing::LoopbackPair;
using testing::PairOptions;
using testing::post;
using testing::receive;
using testing::request;
using testing::Side;
using testing::signaled;

constexpr std::uint32_t kLong = 4'096;

class RcPlacement : public ::testing::Test {
 protected:
  explicit RcPlacement(std::size_t memory_bytes =
                           std::size_t{
                               1
  }
                           << 18)
      : pair_{PairOptions{
            .mtu = verbs::Mtu::Mtu1024, .memory_bytes = memory_bytes, .places = true}} {}
  void SetUp() override {
    pair_.connect();
    for (std::size_t i = 0; i < a().memory.size(); ++i) {
      a().memory[i] = static_cast<std::byte>(i * 7 >> 4);
    }
  }
  Side& a() { return pair_.a(); }
  Side& b() { return pair_.b(); }

  /// Runs until idle, and returns the statuses of a's completions.
  std::vector<WcStatus> run() {
    EXPECT_TRUE(pair_.run());
    std::vector<WcStatus> statuses;
    for (const Wc& wc : pair_.poll(*a().send_cq)) {
      statuses.push_back(wc.status);
    }
    return statuses;
  }
  /// The first message reaches the memory by packets, so that the next may be placed.
  void earn(WrOpcode opcode = WrOpcode::RdmaWrite) {
    request(pair_, {.opcode = opcode, .length = kLong});
    EXPECT_EQ(run(), std::vector{WcStatus::Success});
    pair_.sent.clear();
  }
  [[nodiscard]] bool is_written(std::size_t at, std::size_t length) {
    return std::equal(a().memory.begin(), a().memory.begin() + static_cast<std::ptrdiff_t>(length),
                      b().memory.begin() + static_cast<std::ptrdiff_t>(at));
  }

  LoopbackPair pair_;
};

/// With room for messages of several parts.
class RcPlacementInParts : public RcPlacement {
 protected:
  RcPlacementInParts() : RcPlacement{std::size_t{1} << 24} {}
};

TEST_F(RcPlacement, FollowsAWriteThatWasSent) {
  request(pair_, {.opcode = WrOpcode::RdmaWrite, .length = kLong});
  EXPECT_EQ(run(), std::vector{WcStatus::Success});
  EXPECT_TRUE(pair_.placed.empty());
  pair_.sent.clear();
  request(pair_, {.opcode = WrOpcode::RdmaWrite, .length = kLong, .offset = 0x8000});
  EXPECT_EQ(run(), std::vector{WcStatus::Success});
  EXPECT_TRUE(pair_.sent.empty());
  EXPECT_EQ(pair_.placed.size(), 1U);
  EXPECT_TRUE(is_written(0x8000, kLong));
}

TEST_F(RcPlacement, CompletesWhenItIsPosted) {
  earn();
  const std::array sges{a().sge(0, kLong)};
  SendWr wr = signaled(WrOpcode::RdmaWrite, sges);
  wr.remote_address = b().address();
  wr.rkey = b().region->rkey;
  ASSERT_TRUE(pair_.post_and_transmit(0, wr));
  EXPECT_EQ(pair_.poll(*a().send_cq).size(), 1U);
}

TEST_F(RcPlacement, ReadsIntoSeveralPieces) {
  earn(WrOpcode::RdmaRead);
  std::ranges::copy(std::span{a().memory}.subspan(0x100, kLong), b().memory.begin() + 0x400);
  const std::array sges{a().sge(0x10000, 1'000), a().sge(0x20000, 96), a().sge(0x30000, 3'000)};
  SendWr wr = signaled(WrOpcode::RdmaRead, sges);
  wr.remote_address = b().address(0x400);
  wr.rkey = b().region->rkey;
  post(*a().qp, wr);
  EXPECT_EQ(run(), std::vector{WcStatus::Success});
  EXPECT_TRUE(pair_.sent.empty());
  EXPECT_TRUE(std::ranges::equal(std::span{a().memory}.subspan(0x10000, 1'000),
                                 std::span{b().memory}.subspan(0x400, 1'000)));
  EXPECT_TRUE(std::ranges::equal(std::span{a().memory}.subspan(0x20000, 96),
                                 std::span{b().memory}.subspan(0x400 + 1'000, 96)));
  EXPECT_TRUE(std::ranges::equal(std::span{a().memory}.subspan(0x30000, 3'000),
                                 std::span{b().memory}.subspan(0x400 + 1'096, 3'000)));
}

TEST_F(RcPlacement, IsNotForShortMessagesNorForImmediateData) {
  earn();
  receive(b(), 64);
  request(pair_, {.opcode = WrOpcode::RdmaWrite, .length = kLeastPlacedBytes - 1});
  request(pair_, {.opcode = WrOpcode::RdmaWriteWithImmediate, .length = kLong});
  EXPECT_EQ(run(), (std::vector{WcStatus::Success, WcStatus::Success}));
  EXPECT_TRUE(pair_.placed.empty());
}

TEST_F(RcPlacement, EndsWhenThePortOfThePeerHasAnotherLid) {
  earn();
  PortAttributes port = b().hca.port(PortNumber{1});
  port.lid = Lid{0x123};
  b().hca.set_port(PortNumber{1}, port);
  request(pair_, {.opcode = WrOpcode::RdmaWrite, .length = kLong, .offset = 0x8000});
  EXPECT_EQ(run(), std::vector{WcStatus::RetryExceeded}) << "the old LID leads nowhere";
  EXPECT_TRUE(pair_.placed.empty());
}

TEST(RcPlacementTurnedOff, GrantsAndPlacesNothing) {
  LoopbackPair pair{
      {.memory_bytes = 1U << 18, .places = true, .placement = PlacementPolicy::Never}
  };
  pair.connect();
  for (int i = 0; i < 3; ++i) {
    request(pair, {.opcode = WrOpcode::RdmaWrite, .length = kLong});
    EXPECT_TRUE(pair.run());
  }
  EXPECT_TRUE(pair.placed.empty());
  EXPECT_EQ(pair.b().events.epochs_asked, 0U) << "what a stream of packets need not pay for";
}

/// PlacementPolicy::WhereQuicker, of short messages.
class RcPlacementWhereQuicker : public ::testing::Test {
 protected:
  RcPlacementWhereQuicker() { pair_.connect(); }
  /// Starts a WRITE, lets time pass until the peer looks, and runs until idle.
  void write(Duration until_the_peer_looks) {
    const std::array sges{pair_.a().sge(0, 8)};
    SendWr wr = signaled(WrOpcode::RdmaWrite, sges);
    wr.remote_address = pair_.b().address();
    wr.rkey = pair_.b().region->rkey;
    ASSERT_TRUE(pair_.post_and_transmit(0, wr));
    pair_.wait(until_the_peer_looks);
    EXPECT_TRUE(pair_.run());
    for (const Wc& wc : pair_.poll(*pair_.a().send_cq)) {
      EXPECT_EQ(wc.status, WcStatus::Success);
    }
  }

  /// As many as decide (PlacementChoice).
  void find_packets_slow() {
    for (int i = 0; i < kLook; ++i) {
      write(Duration::microseconds(20));
    }
    EXPECT_TRUE(pair_.placed.empty());
  }

  static constexpr int kLook = 12;
  LoopbackPair pair_{
      {.memory_bytes = 1U << 18, .places = true, .placement = PlacementPolicy::WhereQuicker}
  };
};

TEST_F(RcPlacementWhereQuicker, SendsToAPeerThatLooksAtOnce) {
  for (int i = 0; i < 2 * kLook; ++i) {
    write(Duration::nanoseconds(500));
  }
  EXPECT_TRUE(pair_.placed.empty());
}

TEST_F(RcPlacementWhereQuicker, PlacesWhereThePeerIsSlowToLook) {
  find_packets_slow();
  for (int i = 0; i < 8; ++i) {
    write(Duration::microseconds(20));
  }
  EXPECT_EQ(pair_.placed.size(), 8U);
}

TEST_F(RcPlacementWhereQuicker, SendsWhatIsNotAlone) {
  find_packets_slow();
  receive(pair_.b(), 64);
  request(pair_, {.opcode = WrOpcode::Send, .length = 8});
  request(pair_, {.opcode = WrOpcode::RdmaWrite, .length = 8});
  EXPECT_TRUE(pair_.run());
  EXPECT_TRUE(pair_.placed.empty());
}

TEST_F(RcPlacementWhereQuicker, SendsStreams) {
  pair_.copy_takes = Duration::microseconds(1);
  find_packets_slow();
  for (int i = 0; i < 8; ++i) {
    request(pair_, {.opcode = WrOpcode::RdmaWrite, .length = 8});
  }
  pair_.sent.clear();
  EXPECT_TRUE(pair_.run());
  EXPECT_TRUE(pair_.placed.empty());
  EXPECT_GE(pair_.sent.size(), 8U);
}

/// Of pages that both ends map, which are quicker than packets whatever else is posted.
class RcPlacementInSharedPages : public RcPlacementWhereQuicker {
 protected:
  RcPlacementInSharedPages() { pair_.means = PlacementMeans::SharedPages; }
  void find_pages() {
    while (pair_.placed.empty() && pair_.sent.size() < 40) {
      write(Duration::nanoseconds(500));
    }
    ASSERT_FALSE(pair_.placed.empty());
    pair_.placed.clear();
    pair_.sent.clear();
  }
};

TEST_F(RcPlacementInSharedPages, IsQuickerThanQuickPackets) {
  find_pages();
  for (int i = 0; i < 3 * kLook; ++i) {
    write(Duration::nanoseconds(500));
  }
  EXPECT_EQ(pair_.placed.size(), 3U * kLook);
  EXPECT_TRUE(pair_.sent.empty());
}

TEST_F(RcPlacementInSharedPages, TakesStreams) {
  find_pages();
  for (int i = 0; i < 8; ++i) {
    request(pair_, {.opcode = WrOpcode::RdmaWrite, .length = 8});
  }
  EXPECT_TRUE(pair_.run());
  EXPECT_EQ(pair_.placed.size(), 8U);
  EXPECT_TRUE(pair_.sent.empty());
}

TEST_F(RcPlacementInSharedPages, IsFoundInTheMiddleOfAStream) {
  for (int i = 0; i < 40; ++i) {
    request(pair_, {.opcode = WrOpcode::RdmaWrite, .length = 8});
    pair_.collect();
    ASSERT_TRUE(i % 4 != 0 || pair_.wire.empty() || pair_.deliver_one());
  }
  EXPECT_TRUE(pair_.run());
  EXPECT_GT(pair_.placed.size(), 10U);
}

TEST_F(RcPlacementInSharedPages, DoesNotOvertakeASendEither) {
  find_pages();
  receive(pair_.b(), 64);
  request(pair_, {.opcode = WrOpcode::Send, .length = 8});
  request(pair_, {.opcode = WrOpcode::RdmaWrite, .length = 8});
  EXPECT_TRUE(pair_.run());
  EXPECT_TRUE(pair_.placed.empty());
}

/// As packets it would be copied twice. So a storage target's data meets a response that is under
/// way.
TEST_F(RcPlacementInSharedPages, WaitsForASendWhereItIsLong) {
  find_pages();
  receive(pair_.b(), 64);
  request(pair_, {.opcode = WrOpcode::Send, .length = 8});
  request(pair_, {.opcode = WrOpcode::RdmaWrite, .length = kLeastAwaitingBytes, .offset = 0x10000});
  request(pair_, {.opcode = WrOpcode::Send, .length = 8});
  receive(pair_.b(), 64);
  pair_.collect_from(0, 16);
  EXPECT_FALSE(pair_.a().qp->needs_transmit()) << "it waits, and with it what is behind it";
  EXPECT_TRUE(pair_.placed.empty()) << "the SEND has not arrived yet";
  EXPECT_EQ(pair_.wire.size(), 1U);
  EXPECT_TRUE(pair_.run());
  EXPECT_EQ(pair_.placed.size(), 1U);
  EXPECT_EQ(pair_.poll(*pair_.a().send_cq).size(), 3U);
  EXPECT_EQ(pair_.poll(*pair_.b().recv_cq).size(), 2U);
}

TEST_F(RcPlacementInSharedPages, IsFoundBehindSendsWhereItIsLong) {
  for (int i = 0; i < 40 && pair_.placed.empty(); ++i) {
    receive(pair_.b(), 64);
    request(pair_, {.opcode = WrOpcode::Send, .length = 8});
    request(pair_, {.opcode = WrOpcode::RdmaWrite, .length = kLeastAwaitingBytes});
    EXPECT_TRUE(pair_.run());
  }
  EXPECT_FALSE(pair_.placed.empty());
}

/// A system call is not worth it, and packets go on meanwhile.
TEST_F(RcPlacement, DoesNotWaitForASendHoweverLongWithoutSharedPages) {
  earn();
  receive(b(), 64);
  request(pair_, {.opcode = WrOpcode::Send, .length = 8});
  request(pair_, {.opcode = WrOpcode::RdmaWrite, .length = kLeastAwaitingBytes});
  EXPECT_EQ(run(), (std::vector{WcStatus::Success, WcStatus::Success}));
  EXPECT_TRUE(pair_.placed.empty());
}

TEST_F(RcPlacementInSharedPages, IsLookedForAgainAfterAWithdrawal) {
  find_pages();
  pair_.b().events.granted.withdraw();
  write(Duration::nanoseconds(500));
  EXPECT_TRUE(pair_.placed.empty());
  EXPECT_FALSE(pair_.sent.empty());
  find_pages();
}

TEST_F(RcPlacementInSharedPages, IsAskedForEverMoreRarely) {
  pair_.may_place = [](const Placement&) { return false; };
  pair_.means = PlacementMeans::SystemCall;
  for (int i = 0; i < 1'000; ++i) {
    write(Duration::nanoseconds(500));
  }
  EXPECT_GT(pair_.placements_asked, 3U);
  EXPECT_LT(pair_.placements_asked, 12U);
  EXPECT_TRUE(pair_.placed.empty());
}

TEST_F(RcPlacement, IsForShortMessagesWherePagesAreShared) {
  pair_.means = PlacementMeans::SharedPages;
  earn();
  request(pair_, {.opcode = WrOpcode::RdmaWrite, .length = kLong});
  request(pair_, {.opcode = WrOpcode::RdmaWrite, .length = 8, .offset = 0x8000});
  request(pair_, {.opcode = WrOpcode::RdmaRead, .length = 8});
  EXPECT_EQ(run(), std::vector(3, WcStatus::Success));
  EXPECT_EQ(pair_.placed.size(), 3U);
  EXPECT_TRUE(pair_.sent.empty());
  EXPECT_TRUE(is_written(0x8000, 8));
}

TEST_F(RcPlacement, DoesNotOvertakeASend) {
  earn();
  receive(b(), 64);
  request(pair_, {.opcode = WrOpcode::Send, .length = 8});
  pair_.collect();
  request(pair_, {.opcode = WrOpcode::RdmaWrite, .length = kLong, .offset = 0x8000});
  pair_.collect();
  EXPECT_FALSE(is_written(0x8000, kLong)) << "the SEND has not arrived yet";
  EXPECT_EQ(run(), (std::vector{WcStatus::Success, WcStatus::Success}));
  EXPECT_TRUE(pair_.placed.empty()) << "it went by packets, behind the SEND";
  EXPECT_TRUE(is_written(0x8000, kLong));
}

/// Writes that were posted before the first is answered are packets; once the grant is seen, one
/// waits until they are acknowledged, and all that follow are placed.
TEST_F(RcPlacement, WaitsForWritesThatAreUnderWay) {
  request(pair_, {.opcode = WrOpcode::RdmaWrite, .length = kLong, .wr_id = 1});
  pair_.collect();
  while (pair_.wire.size() > 1) {
    ASSERT_TRUE(pair_.deliver_one());  // the grant is made, the message is not over
  }
  request(pair_, {.opcode = WrOpcode::RdmaWrite, .length = kLong, .offset = 0x8000, .wr_id = 2});
  pair_.collect_from(0, 16);
  EXPECT_FALSE(a().qp->needs_transmit());
  EXPECT_TRUE(pair_.placed.empty());
  EXPECT_EQ(run(), (std::vector{WcStatus::Success, WcStatus::Success}));
  EXPECT_EQ(pair_.placed.size(), 1U);
  EXPECT_TRUE(is_written(0x8000, kLong));
}

TEST_F(RcPlacement, LeavesThePsnsOfBothEndsEqual) {
  earn();
  for (unsigned i = 0; i < 5; ++i) {
    request(pair_, {.opcode = WrOpcode::RdmaWrite, .length = kLong});
  }
  receive(b(), 64);
  request(pair_, {.opcode = WrOpcode::Send, .length = 8});
  request(pair_, {.opcode = WrOpcode::RdmaRead, .length = 64});
  EXPECT_EQ(run(), std::vector(7, WcStatus::Success));
  EXPECT_EQ(pair_.placed.size(), 5U);
  EXPECT_EQ(pair_.sent.size(), 4U) << "a SEND, a READ and their answers: nothing was sent twice";
}

TEST_F(RcPlacementInParts, FallBackToPacketsBetweenThem) {
  earn();
  constexpr std::uint32_t kParts = 3;
  constexpr std::uint32_t kLength = kParts * kMostPlacedBytes - 100;
  request(pair_, {.opcode = WrOpcode::RdmaWrite, .length = kLength});
  EXPECT_EQ(run(), std::vector{WcStatus::Success});
  EXPECT_EQ(pair_.placed.size(), kParts);
  EXPECT_TRUE(pair_.sent.empty());
  EXPECT_TRUE(is_written(0, kLength));

  std::ranges::fill(b().memory, std::byte{});
  pair_.may_place = [](const Placement& part) { return !part.is_last; };
  request(pair_, {.opcode = WrOpcode::RdmaWrite, .length = kLength});
  EXPECT_EQ(run(), std::vector{WcStatus::Success});
  EXPECT_FALSE(pair_.sent.empty());
  EXPECT_TRUE(is_written(0, kLength));
}

/// Port counters do not tell which way was taken.
TEST_F(RcPlacement, CountsAsThePacketsWouldHave) {
  for (const WrOpcode opcode : {WrOpcode::RdmaWrite, WrOpcode::RdmaRead}) {
    for (const std::uint32_t length : {4'096U, 4'097U, 9'000U, 1U << 16}) {
      b().events.granted.withdraw();
      pair_.sent.clear();
      request(pair_, {.opcode = opcode, .length = length});
      ASSERT_EQ(run(), std::vector{WcStatus::Success});
      PlacedTraffic sent;
      for (const InFlightPacket& packet : pair_.sent) {
        const std::uint64_t words = packet_length_words(packet.header, packet.payload.size());
        (packet.flow == Flow::Request ? sent.request_packets : sent.answer_packets) +=
            packet.header.packet_count;
        (packet.flow == Flow::Request ? sent.request_words : sent.answer_words) += words;
      }
      request(pair_, {.opcode = opcode, .length = length});
      ASSERT_EQ(run(), std::vector{WcStatus::Success});
      const PlacedTraffic& placed = pair_.placed.back();
      EXPECT_EQ(placed.request_packets, sent.request_packets) << length;
      EXPECT_EQ(placed.request_words, sent.request_words) << length;
      EXPECT_EQ(placed.answer_packets, sent.answer_packets) << length;
      EXPECT_EQ(placed.answer_words, sent.answer_words) << length;
    }
  }
}

TEST_F(RcPlacementInParts, CountAsOneMessage) {
  earn(WrOpcode::RdmaRead);
  request(pair_, {.opcode = WrOpcode::RdmaRead, .length = 2 * kMostPlacedBytes});
  ASSERT_EQ(run(), std::vector{WcStatus::Success});
  PacketHeader whole;
  whole.packet_count = 8'192;
  whole.opcode = wire::Opcode::RcRdmaReadResponseFirst;
  whole.last_opcode = wire::Opcode::RcRdmaReadResponseLast;
  ASSERT_EQ(pair_.placed.size(), 2U);
  EXPECT_EQ(pair_.placed[0].request_packets + pair_.placed[1].request_packets, 1U);
  EXPECT_EQ(pair_.placed[0].answer_packets + pair_.placed[1].answer_packets, whole.packet_count);
  EXPECT_EQ(pair_.placed[0].answer_words + pair_.placed[1].answer_words,
            packet_length_words(whole, 2 * kMostPlacedBytes));
}

// --- what ends it

TEST_F(RcPlacement, EndsWithTheRegion) {
  earn();
  ASSERT_TRUE(b().hca.deregister_memory(*b().region));
  b().region = a().region;  // for request(): any address will do
  request(pair_, {.opcode = WrOpcode::RdmaWrite, .length = kLong});
  EXPECT_EQ(run(), std::vector{WcStatus::RemoteAccessError});
  EXPECT_TRUE(pair_.placed.empty());
}

TEST_F(RcPlacement, EndsWhenTheRegionIsRegisteredAnew) {
  earn();
  std::vector<std::byte> other(kLong);
  const auto renewed =
      b().hca.reregister_memory(*b().region, *b().pd, b().region->iova, other, b().region->access);
  ASSERT_TRUE(renewed);
  b().region = *renewed;
  request(pair_, {.opcode = WrOpcode::RdmaWrite, .length = kLong});
  EXPECT_EQ(run(), std::vector{WcStatus::Success});
  EXPECT_TRUE(pair_.placed.empty());
  EXPECT_TRUE(std::equal(other.begin(), other.end(), a().memory.begin()));
}

TEST_F(RcPlacement, EndsWithTheKeysInvalidation) {
  earn();
  SendWr wr = signaled(WrOpcode::LocalInvalidate, {});
  wr.rkey = b().region->rkey;
  post(*b().qp, wr);
  EXPECT_EQ(run(), std::vector<WcStatus>{});
  request(pair_, {.opcode = WrOpcode::RdmaWrite, .length = kLong});
  EXPECT_EQ(run(), std::vector{WcStatus::RemoteAccessError});
  EXPECT_TRUE(pair_.placed.empty());
}

TEST_F(RcPlacement, EndsWithTheKeysInvalidationByThePeer) {
  earn();
  receive(b(), 64);
  request(pair_, {.opcode = WrOpcode::SendWithInvalidate, .length = 8});
  EXPECT_EQ(run(), std::vector{WcStatus::Success});
  request(pair_, {.opcode = WrOpcode::RdmaWrite, .length = kLong});
  EXPECT_EQ(run(), std::vector{WcStatus::RemoteAccessError});
  EXPECT_TRUE(pair_.placed.empty());
}

TEST_F(RcPlacement, EndsWithTheQpsRights) {
  earn();
  QpAttributes attributes;
  attributes.access = AccessFlags{Access::RemoteRead};
  ASSERT_TRUE(b().qp->modify(attributes, QpAttribute::RemoteAccess));
  request(pair_, {.opcode = WrOpcode::RdmaWrite, .length = kLong});
  EXPECT_EQ(run(), std::vector{WcStatus::RemoteInvalidRequest});
  EXPECT_TRUE(pair_.placed.empty());
}

TEST_F(RcPlacement, EndsWithTheQp) {
  earn();
  testing::to_state(*b().qp, QpState::Err);
  const PacketHeader request;
  EXPECT_TRUE(b().events.granted
                  .find(b().qp->number(), {.request = request,
                                           .right = Access::RemoteWrite,
                                           .rkey = b().region->rkey,
                                           .address = b().address(),
                                           .length = kLong})
                  .empty());
}

/// A fault of the peer ends the QP as well: a WRITE beyond the region.
TEST_F(RcPlacement, EndsWithAnErrorOfTheQp) {
  earn();
  const std::uint64_t epoch = b().events.granted.epoch();
  request(pair_, {.opcode = WrOpcode::RdmaWrite, .length = kLong, .offset = b().memory.size() - 8});
  EXPECT_EQ(run(), std::vector{WcStatus::RemoteAccessError});
  EXPECT_GT(b().events.granted.epoch(), epoch);
}

TEST_F(RcPlacement, IsLeftAloneByRegionsThatNobodyWasGranted) {
  earn();
  std::vector<std::byte> other(kLong);
  const auto region =
      b().hca.register_memory(*b().pd, 0x9000'0000, other, AccessFlags{Access::LocalWrite});
  ASSERT_TRUE(region);
  const std::uint64_t epoch = b().events.granted.epoch();
  ASSERT_TRUE(b().hca.deregister_memory(**region));
  EXPECT_EQ(b().events.granted.epoch(), epoch);
}

// --- what is never placed

struct NotPlaced {
  const char* name;
  AccessFlags access;
  bool to_window{};
};
class RcPlacementOf : public ::testing::TestWithParam<NotPlaced> {};

constexpr AccessFlags kWritable = AccessFlags{Access::LocalWrite} | Access::RemoteWrite;

INSTANTIATE_TEST_SUITE_P(Memory, RcPlacementOf,
                         ::testing::Values(NotPlaced{"OnDemand", kWritable | Access::OnDemand},
                                           NotPlaced{"BehindAWindow",
                                                     kWritable | Access::MemoryWindowBind, true}),
                         [](const auto& info) { return info.param.name; });

TEST_P(RcPlacementOf, MemoryIsSentByPackets) {
  LoopbackPair pair{
      PairOptions{.region_access = GetParam().access, .places = true}
  };
  pair.connect();
  Side& b = pair.b();
  const std::array sges{pair.a().sge(0, kLong)};
  SendWr wr = signaled(WrOpcode::RdmaWrite, sges);
  wr.remote_address = b.address();
  wr.rkey = b.region->rkey;
  if (GetParam().to_window) {
    const auto window = b.hca.allocate_window(*b.pd, WindowType::Type2);
    ASSERT_TRUE(window);
    const WindowBinding binding{.rkey = (*window)->rkey(),
                                .lkey = b.region->lkey,
                                .address = b.address(),
                                .length = kLong,
                                .access = AccessFlags{Access::RemoteWrite}};
    SendWr bind = signaled(WrOpcode::BindMemoryWindow, {});
    bind.binding = &binding;
    post(*b.qp, bind);
    ASSERT_TRUE(pair.run());
    wr.rkey = (*window)->rkey();
  }
  for (int i = 0; i < 3; ++i) {
    post(*pair.a().qp, wr);
    ASSERT_TRUE(pair.run());
    const auto completions = pair.poll(*pair.a().send_cq);
    ASSERT_EQ(completions.size(), 1U);
    EXPECT_EQ(completions[0].status, WcStatus::Success);
  }
  EXPECT_TRUE(pair.placed.empty());
}

TEST(RcPlacementToItself, WritesWithoutTheRightAreSentAndRefused) {
  LoopbackPair pair{
      PairOptions{.region_access = AccessFlags{Access::LocalWrite} | Access::RemoteRead,
                  .places = true}
  };
  pair.connect();
  request(pair, {.opcode = WrOpcode::RdmaRead, .length = kLong});
  ASSERT_TRUE(pair.run());
  request(pair, {.opcode = WrOpcode::RdmaWrite, .length = kLong});
  ASSERT_TRUE(pair.run());
  EXPECT_EQ(pair.poll(*pair.a().send_cq).back().status, WcStatus::RemoteAccessError);
  EXPECT_TRUE(pair.placed.empty());
}

}  // namespace
}  // namespace weft::hca
