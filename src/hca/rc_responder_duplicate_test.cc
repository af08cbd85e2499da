#include <gtest/gtest.h>

#include <array>

#include "hca/testing/loopback_pair.h"

namespace weft::hca {
namespace {

using testing::Flight;
using testing::LoopbackPair;
using testing::Side;

void post_read(LoopbackPair& pair, std::size_t offset) {
  const std::array sges{pair.a().sge(offset, 64)};
  SendWr read;
  read.opcode = WrOpcode::RdmaRead;
  read.flags = Send::Signaled;
  read.sges = sges;
  read.remote_address = pair.b().address(offset);
  read.rkey = pair.b().region->rkey;
  ASSERT_TRUE(pair.a().qp->post_send(read));
}

/// A requester whose timer ran out repeats a READ. If the answer comes after all, its next READ
/// follows the repeated one; the peer has not broken max_rd_atomic.
TEST(RcResponder, CountsNoRepeatedReadAmongThoseOutstanding) {
  LoopbackPair pair{{.max_rd_atomic = 1}};
  pair.connect();
  post_read(pair, 0);
  pair.collect();
  ASSERT_EQ(pair.wire.size(), 1U);
  const Flight repeated = pair.wire.front();
  ASSERT_TRUE(pair.run());
  ASSERT_EQ(pair.poll(*pair.a().send_cq).size(), 1U);

  post_read(pair, 64);
  pair.collect();
  ASSERT_EQ(pair.wire.size(), 1U);
  pair.wire.push_front(repeated);
  ASSERT_TRUE(pair.deliver_one());
  ASSERT_TRUE(pair.deliver_one());  // before the peer answers either
  ASSERT_TRUE(pair.run());
  const auto completions = pair.poll(*pair.a().send_cq);
  ASSERT_EQ(completions.size(), 1U);
  EXPECT_EQ(completions[0].status, WcStatus::Success);

  // Answered, the repeated one counts no more: neither for nor against the next.
  post_read(pair, 128);
  ASSERT_TRUE(pair.run());
  const auto next = pair.poll(*pair.a().send_cq);
  ASSERT_EQ(next.size(), 1U);
  EXPECT_EQ(next[0].status, WcStatus::Success);
}

}  // namespace
}  // namespace weft::hca
