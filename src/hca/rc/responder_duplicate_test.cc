#include <gtest/gtest.h>

#include <array>

#include "hca/testing/loopback_pair.h"

namespace weft::hca {
namespace {

using testing::InFlightPacket;
using testing::LoopbackPair;
using testing::Side;

void post_read(LoopbackPair& pair, std::size_t offset, std::uint32_t length = 64) {
  const std::array sges{pair.a().sge(offset, length)};
  SendWr read;
  read.opcode = WrOpcode::RdmaRead;
  read.flags = Send::Signaled;
  read.sges = sges;
  read.remote_address = pair.b().address(offset);
  read.rkey = pair.b().region->rkey;
  ASSERT_TRUE(pair.a().qp->post_send(read));
}

/// A requester whose timer expired repeats a READ. If the first response arrives after all, its
/// next READ follows the repeated one, without breaking max_rd_atomic.
TEST(RcResponder, CountsNoRepeatedReadAmongThoseOutstanding) {
  LoopbackPair pair{{.max_rd_atomic = 1}};
  pair.connect();
  post_read(pair, 0);
  pair.collect();
  ASSERT_EQ(pair.wire.size(), 1U);
  const InFlightPacket repeated = pair.wire.front();
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

  // Once answered, the repeated READ no longer counts.
  post_read(pair, 128);
  ASSERT_TRUE(pair.run());
  const auto next = pair.poll(*pair.a().send_cq);
  ASSERT_EQ(next.size(), 1U);
  EXPECT_EQ(next[0].status, WcStatus::Success);
}

/// A READ that is repeated while half of its response is sent continues from the requested
/// position. With a second response beside the rest of the first, that rest would count as
/// outstanding when the requester has all its data and continues reading.
TEST(RcResponder, AnswersAReadOnceThatIsRepeatedHalfWay) {
  LoopbackPair pair{{.max_rd_atomic = 1}};
  pair.connect();
  post_read(pair, 0, 1024);  // 4 packets
  pair.collect_from(0, 1);
  ASSERT_EQ(pair.wire.size(), 1U);
  const InFlightPacket request = pair.wire.front();
  ASSERT_TRUE(pair.deliver_one());
  pair.collect_from(1, 2);
  ASSERT_EQ(pair.wire.size(), 2U);
  pair.wire.clear();  // lost
  pair.wire.push_back(request);
  ASSERT_TRUE(pair.deliver_one());
  pair.collect_from(1, 4);
  ASSERT_EQ(pair.wire.size(), 4U);  // all of the repeated READ, and no more
  while (pair.deliver_one()) {
  }
  ASSERT_EQ(pair.poll(*pair.a().send_cq).size(), 1U);

  post_read(pair, 1024);
  ASSERT_TRUE(pair.run());
  const auto next = pair.poll(*pair.a().send_cq);
  ASSERT_EQ(next.size(), 1U);
  EXPECT_EQ(next[0].status, WcStatus::Success);
  EXPECT_EQ(pair.sent.size(),
            1U + 2U + 4U + 1U + 1U);  // READ, lost response, its response, READ, its response
}

/// The requester accepts responses in PSN order only, so repeated requests are answered in that
/// order, however many there are.
TEST(RcResponder, AnswersRepeatedRequestsInTheirOrder) {
  LoopbackPair pair{{.max_rd_atomic = 4}};
  pair.connect();
  for (std::size_t i = 0; i < 4; ++i) {
    post_read(pair, i * 64);
  }
  pair.collect_from(0, 4);
  const std::deque<InFlightPacket> requests = pair.wire;
  ASSERT_EQ(requests.size(), 4U);
  while (pair.deliver_one()) {
  }
  pair.collect_from(1, 4);
  pair.wire = requests;  // every response was lost
  while (pair.deliver_one()) {
  }
  pair.collect_from(1, 4);
  while (pair.deliver_one()) {
  }
  EXPECT_EQ(pair.poll(*pair.a().send_cq).size(), 4U);
}

}  // namespace
}  // namespace weft::hca
