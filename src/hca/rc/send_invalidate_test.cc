// SEND with Invalidate of a key that the receiver cannot invalidate: a class J fault of the
// responder (IBTA vol 1 §9.9.6.3).

#include <gtest/gtest.h>

#include <algorithm>

#include "hca/testing/loopback_pair.h"
#include "hca/testing/work_requests.h"

namespace weft::hca {
namespace {

using testing::InFlightPacket;
using testing::LoopbackPair;
using testing::receive;
using testing::request;

class FailedInvalidation : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  void SetUp() override {
    pair_.connect();
    receive(pair_.b(), 1000);
  }
  [[nodiscard]] bool has_nak() const {
    return std::ranges::any_of(pair_.sent, [](const InFlightPacket& in_flight_packet) {
      return in_flight_packet.flow == Flow::Response &&
             in_flight_packet.header.extension.response.aeth.syndrome.kind() ==
                 wire::SyndromeKind::Nak;
    });
  }
  LoopbackPair pair_{{.retry_count = 1}};
};

INSTANTIATE_TEST_SUITE_P(Lengths, FailedInvalidation, ::testing::Values(0U, 8U, 600U));

TEST_P(FailedInvalidation, SendsNoNakAndEndsTheReceiverAlone) {
  request(pair_, {.opcode = WrOpcode::SendWithInvalidate, .length = GetParam(), .rkey_change = 1});
  ASSERT_TRUE(pair_.run());
  const auto received = pair_.poll(*pair_.b().recv_cq);
  ASSERT_EQ(received.size(), 1U);
  EXPECT_EQ(received[0].status, WcStatus::LocalAccessError);
  EXPECT_EQ(pair_.b().qp->query().state, QpState::Err);
  EXPECT_FALSE(has_nak());
  const auto sent = pair_.poll(*pair_.a().send_cq);
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].status, WcStatus::RetryExceeded) << "as of a peer that is gone";
}

TEST_P(FailedInvalidation, LetsTheAnswersBeforeItGo) {
  request(pair_, {.opcode = WrOpcode::RdmaWrite, .wr_id = 1});
  request(pair_, {.opcode = WrOpcode::RdmaRead, .length = 1000, .wr_id = 2});
  request(
      pair_,
      {.opcode = WrOpcode::SendWithInvalidate, .length = GetParam(), .rkey_change = 1, .wr_id = 3});
  ASSERT_TRUE(pair_.run());
  const auto sent = pair_.poll(*pair_.a().send_cq);
  ASSERT_EQ(sent.size(), 3U);
  EXPECT_EQ(sent[0].status, WcStatus::Success);
  EXPECT_EQ(sent[1].status, WcStatus::Success);
  EXPECT_EQ(sent[2].status, WcStatus::RetryExceeded);
  EXPECT_FALSE(has_nak());
}

}  // namespace
}  // namespace weft::hca
