// A UD datagram longer than the receive WQE it would fill: a class D fault of the responder (IBTA
// vol 1 §9.9.3), for which only the sender may be affected.

#include <gtest/gtest.h>

#include <array>

#include "hca/testing/loopback_pair.h"
#include "hca/testing/work_requests.h"

namespace weft::hca {
namespace {

using testing::LoopbackPair;
using testing::receive;
using testing::request;

class UdTooLong : public ::testing::TestWithParam<bool> {
 protected:
  LoopbackPair pair_{
      {.type = QpType::Ud, .shared_receive_queue = GetParam()}
  };
};

INSTANTIATE_TEST_SUITE_P(Queues, UdTooLong, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "Srq" : "OwnQueue"; });

TEST_P(UdTooLong, IsDroppedAndItsReceiveStaysForTheNextDatagram) {
  pair_.connect();
  const auto before = pair_.b().memory;
  receive(pair_.b(), 48, 100);
  receive(pair_.b(), 248, 101);
  request(pair_, {.length = 9});
  request(pair_, {.length = 200});
  ASSERT_TRUE(pair_.run());
  EXPECT_TRUE(pair_.poll(*pair_.b().recv_cq).empty());
  EXPECT_EQ(pair_.b().qp->query().state, QpState::Rts);
  EXPECT_EQ(pair_.b().memory, before);
  ASSERT_FALSE(pair_.b().events.reasons.empty());
  EXPECT_NE(pair_.b().events.reasons.back().find("48 bytes"), std::string::npos);
  request(pair_, {.length = 8});
  request(pair_, {.length = 200});
  ASSERT_TRUE(pair_.run());
  const auto done = pair_.poll(*pair_.b().recv_cq);
  ASSERT_EQ(done.size(), 2U);
  EXPECT_EQ(done[0].wr_id, 100U);
  EXPECT_EQ(done[0].status, WcStatus::Success);
  EXPECT_EQ(done[0].byte_length, 48U);
  EXPECT_EQ(done[1].wr_id, 101U);
  EXPECT_EQ(done[1].status, WcStatus::Success);
  EXPECT_TRUE(pair_.b().events.events.empty());
}

TEST_P(UdTooLong, LeavesAReceiveThatIsFlushedWithTheQp) {
  pair_.connect();
  receive(pair_.b(), 48, 100);
  receive(pair_.b(), 48, 101);
  request(pair_, {.length = 9});
  ASSERT_TRUE(pair_.run());
  testing::to_state(*pair_.b().qp, QpState::Err);
  const auto done = pair_.poll(*pair_.b().recv_cq);
  ASSERT_EQ(done.size(), GetParam() ? 1U : 2U) << "the rest is the SRQ's";
  EXPECT_EQ(done[0].wr_id, 100U);
  EXPECT_EQ(done[0].status, WcStatus::WorkRequestFlushed);
}

TEST(UdTooLongBeforeReset, LeavesNothingForTheQpsNextLife) {
  LoopbackPair pair{{.type = QpType::Ud}};
  pair.connect();
  receive(pair.b(), 48, 100);
  request(pair, {.length = 9});
  ASSERT_TRUE(pair.run());
  testing::to_state(*pair.b().qp, QpState::Reset);
  pair.to_init(pair.b());
  pair.to_rtr(pair.b(), pair.a());
  request(pair, {.length = 8});
  ASSERT_TRUE(pair.run());
  EXPECT_TRUE(pair.poll(*pair.b().recv_cq).empty());
}

}  // namespace
}  // namespace weft::hca
