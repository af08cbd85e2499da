#include "mad/rmpp_sender.h"

#include <gtest/gtest.h>

#include "mad/testing/network.h"

namespace weft::mad {
namespace {

constexpr RmppSender::Options kOptions{.response_time = Duration::milliseconds(10),
                                       .retries = 2,
                                       .total_time = Duration::milliseconds(100),
                                       .window = 8};
constexpr Instant kStart;

MadMessage table_of(std::size_t bytes) {
  MadMessage message = request_of(wire::ManagementClass::SubnAdm, wire::MadMethod::GetTableResp);
  message.is_rmpp = true;
  message.data = pattern(bytes);
  return message;
}

wire::Rmpp ack(std::uint32_t segment, std::uint32_t window_last) {
  wire::Rmpp rmpp = rmpp_reply(wire::RmppType::Ack, wire::RmppStatus::Normal);
  rmpp.data1 = segment;
  rmpp.data2 = window_last;
  return rmpp;
}

std::vector<wire::Rmpp> drain(RmppSender& sender, Instant now = kStart) {
  std::vector<wire::Rmpp> segments;
  while (const auto segment = sender.next_segment(now)) {
    segments.push_back(rmpp_of(*segment));
  }
  return segments;
}

TEST(RmppSender, SendsTheFirstSegmentAloneAndThenTheWindow) {
  RmppSender sender{table_of(1000), kOptions, kStart};
  EXPECT_EQ(sender.segments(), 5U);
  const auto first = drain(sender);
  ASSERT_EQ(first.size(), 1U);
  EXPECT_TRUE(first[0].is_first && !first[0].is_last);
  EXPECT_EQ(first[0].data2, 1000U + 5 * 20);  // §32.7: the class's header once a segment
  sender.handle_ack(ack(1, 3), kStart);
  EXPECT_EQ(drain(sender).size(), 2U);
  sender.handle_ack(ack(3, 64), kStart);
  const auto rest = drain(sender);
  ASSERT_EQ(rest.size(), 2U);
  EXPECT_EQ(rest[0].data2, 0U);
  EXPECT_TRUE(rest[1].is_last);
  EXPECT_EQ(rest[1].data2, 220U);
  sender.handle_ack(ack(5, 64), kStart);
  EXPECT_EQ(sender.state(), RmppSender::State::Acknowledged);
  EXPECT_EQ(sender.deadline(), Instant::never());
}

TEST(RmppSender, SaysTheLengthOfAnOddLastSegment) {
  RmppSender empty{table_of(0), kOptions, kStart};
  const auto only = drain(empty);
  ASSERT_EQ(only.size(), 1U);
  EXPECT_TRUE(only[0].is_first && only[0].is_last);
  EXPECT_EQ(only[0].data2, 20U);
}

TEST(RmppSender, RepeatsFromTheFirstThatIsNotAcknowledged) {
  RmppSender sender{table_of(1000), kOptions, kStart};
  (void)drain(sender);
  sender.handle_ack(ack(1, 5), kStart);
  (void)drain(sender);
  sender.handle_ack(ack(3, 5), kStart);
  const Instant later = sender.deadline();
  sender.handle_timeout(later);
  const auto again = drain(sender, later);
  ASSERT_EQ(again.size(), 2U);
  EXPECT_EQ(again[0].data1, 4U);
  EXPECT_EQ(sender.resent(), 2U);
}

TEST(RmppSender, GivesUpAfterItsRetriesOrItsTotalTime) {
  RmppSender sender{table_of(1000), kOptions, kStart};
  for (unsigned i = 0; i <= kOptions.retries; ++i) {
    ASSERT_EQ(sender.state(), RmppSender::State::Sending);
    (void)drain(sender, sender.deadline() - kOptions.response_time);
    sender.handle_timeout(sender.deadline());
  }
  EXPECT_EQ(sender.failure(), wire::RmppStatus::TooManyRetries);
  RmppSender slow{table_of(1000), kOptions, kStart};
  slow.handle_timeout(kStart + kOptions.total_time);
  EXPECT_EQ(slow.failure(), wire::RmppStatus::TotalTimeTooLong);
}

TEST(RmppSender, RefusesAcksThatCannotBe) {
  RmppSender sender{table_of(1000), kOptions, kStart};
  (void)drain(sender);
  sender.handle_ack(ack(2, 5), kStart);  // never sent
  EXPECT_EQ(sender.failure(), wire::RmppStatus::SegmentNumberTooBig);
  RmppSender other{table_of(1000), kOptions, kStart};
  (void)drain(other);
  other.handle_ack(ack(1, 0), kStart);
  EXPECT_EQ(other.failure(), wire::RmppStatus::NewWindowLastTooSmall);
}

TEST(RmppSender, IgnoresAcksThatWereOvertaken) {
  RmppSender sender{table_of(2000), kOptions, kStart};
  (void)drain(sender);
  sender.handle_ack(ack(1, 5), kStart);
  (void)drain(sender);
  sender.handle_ack(ack(5, 9), kStart);
  sender.handle_ack(ack(1, 5), kStart);
  EXPECT_EQ(sender.state(), RmppSender::State::Sending);
  EXPECT_EQ(drain(sender).size(), 4U);
}

TEST(RmppSender, KeepsToItsOwnWindowWhateverIsOffered) {
  RmppSender sender{table_of(20'000), kOptions, kStart};
  (void)drain(sender);
  sender.handle_ack(ack(1, 0xFFFF'FFFF), kStart);
  EXPECT_EQ(drain(sender).size(), kOptions.window);
}

}  // namespace
}  // namespace weft::mad
