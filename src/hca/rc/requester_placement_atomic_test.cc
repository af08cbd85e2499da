// Direct placement of atomics by the engines of RC (hca/placement.h): in pages that both ends map,
// once, and with the same result as by packets.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

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
constexpr std::size_t kWordAt = 0x100;     // in b's memory
constexpr std::size_t kResultAt = 0x8000;  // in a's
constexpr std::uint64_t kBefore = 0x0102'0304'0506'0708;

/// CmpSwap with `first` as Compare and `second` as Swap, or FetchAdd of `first`.
struct Atomic {
  WrOpcode opcode{WrOpcode::FetchAdd};
  std::uint64_t first{1};
  std::uint64_t second{};
  std::size_t at{kWordAt};
};

class RcPlacementOfAtomics : public ::testing::Test {
 protected:
  RcPlacementOfAtomics() : RcPlacementOfAtomics(PairOptions{}) {}
  explicit RcPlacementOfAtomics(PairOptions options) : pair_{with_placement(options)} {
    pair_.means = PlacementMeans::SharedPages;
    pair_.connect();
    put(b(), kWordAt, kBefore);
  }
  static PairOptions with_placement(PairOptions options) {
    options.memory_bytes = std::size_t{1} << 17;
    options.places = true;
    return options;
  }
  Side& a() { return pair_.a(); }
  Side& b() { return pair_.b(); }

  static void put(Side& side, std::size_t at, std::uint64_t value) {
    copy_bytes(MutableByteSpan{side.memory}.subspan(at), bytes_of(value));
  }
  [[nodiscard]] static std::uint64_t word(const Side& side, std::size_t at) {
    std::array<std::byte, sizeof(std::uint64_t)> octets{};
    copy_bytes(octets, ByteSpan{side.memory}.subspan(at, octets.size()));
    return std::bit_cast<std::uint64_t>(octets);
  }
  [[nodiscard]] std::uint64_t target() { return word(b(), kWordAt); }
  [[nodiscard]] std::uint64_t result() { return word(a(), kResultAt); }

  /// Runs until idle, and returns the statuses of a's completions.
  std::vector<WcStatus> run() {
    EXPECT_TRUE(pair_.run());
    std::vector<WcStatus> statuses;
    for (const Wc& wc : pair_.poll(*a().send_cq)) {
      statuses.push_back(wc.status);
    }
    return statuses;
  }
  void post_atomic(const Atomic& atomic, std::span<const Sge> sges) {
    SendWr wr = signaled(atomic.opcode, sges);
    wr.remote_address = b().address(atomic.at);
    wr.rkey = b().region->rkey;
    wr.compare_add = atomic.first;
    wr.swap = atomic.second;
    post(*a().qp, wr);
  }
  void post_atomic(const Atomic& atomic = {}) {
    const std::array sges{a().sge(kResultAt, kAtomicBytes)};
    post_atomic(atomic, sges);
  }
  [[nodiscard]] std::vector<WcStatus> run(const Atomic& atomic) {
    post_atomic(atomic);
    return run();
  }

  /// WRITEs reach the memory by packets, and then by its pages.
  void find_pages() {
    request(pair_, {.opcode = WrOpcode::RdmaWrite, .length = kLong, .offset = 0x10000});
    EXPECT_EQ(run(), std::vector{WcStatus::Success});
    pair_.placed.clear();
    request(pair_, {.opcode = WrOpcode::RdmaWrite, .length = kLong, .offset = 0x10000});
    EXPECT_EQ(run(), std::vector{WcStatus::Success});
    ASSERT_EQ(pair_.placed.size(), 1U);
    pair_.placed.clear();
    pair_.sent.clear();
  }

  LoopbackPair pair_;
};

TEST_F(RcPlacementOfAtomics, AddAndBringTheOriginalBack) {
  find_pages();
  EXPECT_EQ(run({.first = 7}), std::vector{WcStatus::Success});
  EXPECT_EQ(target(), kBefore + 7);
  EXPECT_EQ(result(), kBefore);
  EXPECT_EQ(pair_.placed.size(), 1U);
  EXPECT_TRUE(pair_.sent.empty());
}

TEST_F(RcPlacementOfAtomics, SwapWhereTheOriginalIsEqual) {
  find_pages();
  EXPECT_EQ(run({.opcode = WrOpcode::CompareSwap, .first = kBefore, .second = 99}),
            std::vector{WcStatus::Success});
  EXPECT_EQ(target(), 99U);
  EXPECT_EQ(result(), kBefore);
  EXPECT_EQ(run({.opcode = WrOpcode::CompareSwap, .first = kBefore, .second = 100}),
            std::vector{WcStatus::Success});
  EXPECT_EQ(target(), 99U);
  EXPECT_EQ(result(), 99U);
  EXPECT_EQ(pair_.placed.size(), 2U);
  EXPECT_TRUE(pair_.sent.empty());
}

TEST_F(RcPlacementOfAtomics, PutTheOriginalIntoSeveralPieces) {
  find_pages();
  const std::array sges{a().sge(kResultAt, 3), a().sge(kResultAt + 64, 5)};
  post_atomic({}, sges);
  EXPECT_EQ(run(), std::vector{WcStatus::Success});
  EXPECT_EQ(pair_.placed.size(), 1U);
  const ByteSpan original = bytes_of(kBefore);
  const ByteSpan memory{a().memory};
  EXPECT_TRUE(std::ranges::equal(memory.subspan(kResultAt, 3), original.first(3)));
  EXPECT_TRUE(std::ranges::equal(memory.subspan(kResultAt + 64, 5), original.subspan(3)));
}

TEST_F(RcPlacementOfAtomics, AreFoundByAtomicsAlone) {
  for (std::uint64_t i = 0; i < 20; ++i) {
    EXPECT_EQ(run(Atomic{}), std::vector{WcStatus::Success});
    EXPECT_EQ(result(), kBefore + i);
  }
  EXPECT_EQ(target(), kBefore + 20);
  EXPECT_GT(pair_.placed.size(), 10U);
}

TEST_F(RcPlacementOfAtomics, AreSentWherePagesAreNotShared) {
  pair_.means = PlacementMeans::SystemCall;
  find_pages();
  for (std::uint64_t i = 0; i < 20; ++i) {
    EXPECT_EQ(run(Atomic{}), std::vector{WcStatus::Success});
    EXPECT_EQ(result(), kBefore + i);
  }
  EXPECT_TRUE(pair_.placed.empty());
}

/// It was not performed, and is then by the packet: once.
TEST_F(RcPlacementOfAtomics, AreSentWhenTheyAreRefused) {
  find_pages();
  pair_.may_place = [](const Placement& part) { return !part.atomic; };
  EXPECT_EQ(run(Atomic{}), std::vector{WcStatus::Success});
  EXPECT_EQ(target(), kBefore + 1);
  EXPECT_EQ(result(), kBefore);
  EXPECT_EQ(pair_.sent.size(), 2U);
}

TEST_F(RcPlacementOfAtomics, EndWithAWithdrawal) {
  find_pages();
  b().events.granted.withdraw();
  EXPECT_EQ(run(Atomic{}), std::vector{WcStatus::Success});
  EXPECT_EQ(target(), kBefore + 1);
  EXPECT_TRUE(pair_.placed.empty());
}

/// The responder has to say so (IBTA vol 1 §9.7.4.1).
TEST_F(RcPlacementOfAtomics, OfAnOddAddressAreSentAndRefused) {
  find_pages();
  EXPECT_EQ(run({.at = kWordAt + 4}), std::vector{WcStatus::RemoteInvalidRequest});
  EXPECT_TRUE(pair_.placed.empty());
  EXPECT_EQ(target(), kBefore);
}

TEST_F(RcPlacementOfAtomics, WithoutTheQpsRightAreSentAndRefused) {
  QpAttributes attributes;
  attributes.access = AccessFlags{Access::RemoteRead} | Access::RemoteWrite;
  ASSERT_TRUE(b().qp->modify(attributes, QpAttribute::RemoteAccess));
  find_pages();
  EXPECT_EQ(run(Atomic{}), std::vector{WcStatus::RemoteInvalidRequest});
  EXPECT_TRUE(pair_.placed.empty());
  EXPECT_EQ(target(), kBefore);
}

class RcPlacementWithoutAtomics : public RcPlacementOfAtomics {
 protected:
  RcPlacementWithoutAtomics()
      : RcPlacementOfAtomics(PairOptions{.region_access = AccessFlags{Access::LocalWrite} |
                                                          Access::RemoteWrite |
                                                          Access::RemoteRead}) {}
};

TEST_F(RcPlacementWithoutAtomics, OfTheRegionSendsAndIsRefused) {
  find_pages();
  EXPECT_EQ(run(Atomic{}), std::vector{WcStatus::RemoteAccessError});
  EXPECT_TRUE(pair_.placed.empty());
  EXPECT_EQ(target(), kBefore);
}

/// As by packets, the peer's word has changed by then, once.
TEST_F(RcPlacementOfAtomics, WithNoPlaceForTheOriginalAreSent) {
  find_pages();
  std::vector<std::byte> constant(kAtomicBytes);
  const auto region =
      a().hca.register_memory(*a().pd, 0x9000'0000, constant, AccessFlags{Access::RemoteRead});
  ASSERT_TRUE(region);
  const std::array sges{
      Sge{.address = 0x9000'0000, .length = kAtomicBytes, .lkey = (*region)->lkey}
  };
  post_atomic({}, sges);
  EXPECT_EQ(run(), std::vector{WcStatus::LocalProtectionError});
  EXPECT_TRUE(pair_.placed.empty());
  EXPECT_EQ(target(), kBefore + 1);
}

TEST_F(RcPlacementOfAtomics, DoNotOvertakeASend) {
  find_pages();
  receive(b(), 64);
  request(pair_, {.opcode = WrOpcode::Send, .length = 8});
  pair_.collect();
  post_atomic();
  pair_.collect();
  EXPECT_EQ(target(), kBefore) << "the SEND has not arrived yet";
  EXPECT_EQ(run(), (std::vector{WcStatus::Success, WcStatus::Success}));
  EXPECT_TRUE(pair_.placed.empty());
  EXPECT_EQ(target(), kBefore + 1);
}

/// The first are packets, and one waits until they are answered; the others are placed behind it.
TEST_F(RcPlacementOfAtomics, KeepTheirOrderInAStream) {
  constexpr std::uint64_t kCount = 40;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    const std::array sges{a().sge(kResultAt + 64 * i, kAtomicBytes)};
    post_atomic({}, sges);
    pair_.collect();
    ASSERT_TRUE(i % 4 != 0 || pair_.wire.empty() || pair_.deliver_one());
  }
  EXPECT_EQ(run(), std::vector(kCount, WcStatus::Success));
  for (std::uint64_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(word(a(), kResultAt + 64 * i), kBefore + i);
  }
  EXPECT_EQ(target(), kBefore + kCount);
  EXPECT_GT(pair_.placed.size(), 10U);
}

/// Port counters do not tell which way was taken.
TEST_F(RcPlacementOfAtomics, CountAsThePacketsWouldHave) {
  for (const WrOpcode opcode : {WrOpcode::FetchAdd, WrOpcode::CompareSwap}) {
    b().events.granted.withdraw();
    pair_.sent.clear();
    ASSERT_EQ(run({.opcode = opcode}), std::vector{WcStatus::Success});
    PlacedTraffic sent;
    for (const InFlightPacket& packet : pair_.sent) {
      const std::uint64_t words = packet_length_words(packet.header, packet.payload.size());
      ++(packet.flow == Flow::Request ? sent.request_packets : sent.answer_packets);
      (packet.flow == Flow::Request ? sent.request_words : sent.answer_words) += words;
    }
    find_pages();
    ASSERT_EQ(run({.opcode = opcode}), std::vector{WcStatus::Success});
    ASSERT_EQ(pair_.placed.size(), 1U);
    const PlacedTraffic& placed = pair_.placed.back();
    EXPECT_EQ(placed.request_packets, sent.request_packets);
    EXPECT_EQ(placed.request_words, sent.request_words);
    EXPECT_EQ(placed.answer_packets, sent.answer_packets);
    EXPECT_EQ(placed.answer_words, sent.answer_words);
  }
}

TEST_F(RcPlacementOfAtomics, LeaveThePsnsOfBothEndsEqual) {
  find_pages();
  for (int i = 0; i < 5; ++i) {
    post_atomic();
  }
  receive(b(), 64);
  request(pair_, {.opcode = WrOpcode::Send, .length = 8});
  EXPECT_EQ(run(), std::vector(6, WcStatus::Success));
  EXPECT_EQ(pair_.placed.size(), 5U);
  EXPECT_EQ(pair_.sent.size(), 2U) << "a SEND and its answer: nothing was sent twice";
}

}  // namespace
}  // namespace weft::hca
