// ATOMIC WRITE (IBTA vol 1 annex A19): writes eight bytes atomically and is answered like a READ.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "hca/testing/loopback_pair.h"

namespace weft::hca {
namespace {

using testing::InFlightPacket;
using testing::LoopbackPair;
using testing::PairOptions;

constexpr std::uint64_t kValue = 0x0123'4567'89AB'CDEF;

/// Writes `kValue` from a to byte `offset` of b's memory.
[[nodiscard]] Result<void> post(LoopbackPair& pair, std::size_t offset) {
  SendWr wr;
  wr.wr_id = 3;
  wr.opcode = WrOpcode::AtomicWrite;
  wr.flags = Send::Signaled;
  wr.remote_address = pair.b().address(offset);
  wr.rkey = pair.b().region->rkey;
  wr.swap = kValue;
  return pair.a().qp->post_send(wr);
}

[[nodiscard]] std::vector<Wc> outcome(LoopbackPair& pair) {
  EXPECT_TRUE(pair.run());
  return pair.poll(*pair.a().send_cq);
}

[[nodiscard]] std::uint64_t value_at(LoopbackPair& pair, std::size_t offset) {
  std::array<std::byte, sizeof kValue> bytes{};
  std::copy_n(pair.b().memory.begin() + static_cast<std::ptrdiff_t>(offset), bytes.size(),
              bytes.begin());
  return std::bit_cast<std::uint64_t>(bytes);
}

TEST(RcAtomicWrite, WritesEightBytesAndIsAnsweredByAnEmptyReadResponse) {
  LoopbackPair pair;
  pair.connect();
  ASSERT_TRUE(post(pair, 8));
  const auto completions = outcome(pair);
  ASSERT_EQ(completions.size(), 1U);
  EXPECT_EQ(completions[0].status, WcStatus::Success);
  EXPECT_EQ(completions[0].opcode, WcOpcode::AtomicWrite);
  EXPECT_EQ(value_at(pair, 0), 0U);
  EXPECT_EQ(value_at(pair, 8), kValue);
  EXPECT_EQ(value_at(pair, 16), 0U);
  ASSERT_EQ(pair.sent.size(), 2U);
  EXPECT_EQ(static_cast<unsigned>(pair.sent[0].header.opcode), 0x1DU);
  EXPECT_EQ(pair.sent[0].payload.size(), 8U);
  EXPECT_EQ(pair.sent[0].header.extension.reth.dma_length, 8U);
  EXPECT_EQ(pair.sent[1].header.opcode, wire::Opcode::RcRdmaReadResponseOnly);
  EXPECT_TRUE(pair.sent[1].payload.empty());
}

TEST(RcAtomicWrite, IsAnsweredAgainButNotWrittenAgainWhenTheAnswerIsLost) {
  LoopbackPair pair;
  pair.connect();
  int answers = 0;
  pair.filter = [&](const InFlightPacket& in_flight_packet) {
    if (in_flight_packet.flow == Flow::Response && ++answers == 1) {
      pair.b().memory[8] = std::byte{1};  // by another writer
      return false;
    }
    return true;
  };
  ASSERT_TRUE(post(pair, 8));
  const auto completions = outcome(pair);
  ASSERT_EQ(completions.size(), 1U);
  EXPECT_EQ(completions[0].status, WcStatus::Success);
  EXPECT_EQ(answers, 2);
  EXPECT_EQ(pair.b().memory[8], std::byte{1});
}

TEST(RcAtomicWrite, IsSentAgainWhenItIsLost) {
  LoopbackPair pair;
  pair.connect();
  int requests = 0;
  pair.filter = [&](const InFlightPacket& in_flight_packet) {
    return in_flight_packet.flow != Flow::Request || ++requests > 1;
  };
  ASSERT_TRUE(post(pair, 8));
  EXPECT_EQ(outcome(pair).size(), 1U);
  EXPECT_EQ(value_at(pair, 8), kValue);
}

TEST(RcAtomicWrite, IsRefusedWhereItMayNotWrite) {
  struct Case {
    PairOptions options;
    std::size_t offset;
    std::uint32_t dma_length;
    WcStatus status;
  };
  PairOptions unwritable_region;
  unwritable_region.region_access = AccessFlags{Access::LocalWrite} | Access::RemoteAtomic;
  PairOptions unwritable_qp;
  unwritable_qp.qp_access = Access::RemoteAtomic;
  for (const Case& test : std::vector<Case>{
           {{},                4,                    8,  WcStatus::RemoteInvalidRequest},
           {{},                8,                    16, WcStatus::RemoteInvalidRequest},
           {unwritable_region, 8,                    8,  WcStatus::RemoteAccessError   },
           {unwritable_qp,     8,                    8,  WcStatus::RemoteInvalidRequest},
           {{},                std::size_t{1} << 16, 8,  WcStatus::RemoteAccessError   },
  }) {
    LoopbackPair pair{test.options};
    pair.connect();
    pair.filter = [&](InFlightPacket& in_flight_packet) {
      if (in_flight_packet.flow == Flow::Request) {
        in_flight_packet.header.extension.reth.dma_length = test.dma_length;
      }
      return true;
    };
    ASSERT_TRUE(post(pair, test.offset));
    const auto completions = outcome(pair);
    ASSERT_EQ(completions.size(), 1U);
    EXPECT_EQ(completions[0].status, test.status);
    EXPECT_EQ(value_at(pair, 8), 0U);
  }
}

TEST(RcAtomicWrite, IsOfferedByRcOnlyAndTakesNoScatterGatherList) {
  LoopbackPair uc{{.type = QpType::Uc}};
  uc.connect();
  EXPECT_EQ(post(uc, 8).error().code, ErrorCode::InvalidArgument);
  LoopbackPair pair;
  pair.connect();
  SendWr wr;
  wr.opcode = WrOpcode::AtomicWrite;
  const Sge sge = pair.a().sge(0, 8);
  wr.sges = {&sge, 1};
  EXPECT_EQ(pair.a().qp->post_send(wr).error().code, ErrorCode::InvalidArgument);
  wr.sges = {};
  wr.opcode = static_cast<WrOpcode>(10);  // TSO, by its number in the verbs API
  EXPECT_EQ(pair.a().qp->post_send(wr).error().code, ErrorCode::InvalidArgument);
}

}  // namespace
}  // namespace weft::hca
