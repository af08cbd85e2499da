#include "mad/rmpp_receiver.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "mad/rmpp_sender.h"
#include "mad/testing/network.h"

namespace weft::mad {
namespace {

constexpr RmppReceiver::Options kOptions{
    .window = 4, .message_bytes = 100'000, .total_time = Duration::seconds(1)};
constexpr Instant kStart;

/// All segments of a message, as from a sender with a large window.
std::vector<MadBytes> segments_of(std::size_t bytes) {
  MadMessage message = request_of(wire::ManagementClass::SubnAdm, wire::MadMethod::GetTableResp);
  message.is_rmpp = true;
  message.data = pattern(bytes);
  RmppSender sender{
      message,
      {.response_time = Duration::seconds(1),
        .retries = 0,
        .total_time = Duration::seconds(1),
        .window = 10'000},
      kStart
  };
  std::vector<MadBytes> segments = {*sender.next_segment(kStart)};
  wire::Rmpp ack = rmpp_reply(wire::RmppType::Ack, wire::RmppStatus::Normal);
  ack.data1 = 1;
  ack.data2 = 10'000;
  sender.handle_ack(ack, kStart);
  while (const auto segment = sender.next_segment(kStart)) {
    segments.push_back(*segment);
  }
  return segments;
}

RmppReceiver receiver() { return {wire::ManagementClass::SubnAdm, kOptions, kStart}; }

template <class Change>
MadBytes changed(MadBytes mad, Change change) {
  wire::Rmpp rmpp = rmpp_of(mad);
  change(rmpp);
  set_rmpp(mad, rmpp);
  return mad;
}

TEST(RmppReceiver, PutsSegmentsTogetherAndAcknowledgesEachWindow) {
  RmppReceiver each = receiver();
  const auto segments = segments_of(1500);  // 8 of 200
  std::vector<std::pair<std::uint32_t, std::uint32_t>> acks;
  for (const MadBytes& segment : segments) {
    if (const auto ack = each.handle_data(segment)) {
      EXPECT_EQ(ack->type, wire::RmppType::Ack);
      acks.emplace_back(ack->data1, ack->data2);
    }
  }
  const std::vector<std::pair<std::uint32_t, std::uint32_t>> expected = {
      {1, 5},
      {5, 9},
      {8, 9}
  };
  EXPECT_EQ(acks, expected);
  ASSERT_EQ(each.state(), RmppReceiver::State::Complete);
  EXPECT_EQ(each.take().data, pattern(1500));
  EXPECT_EQ(each.handle_data(segments[7])->data1, 8U);  // the last ACK was lost
  EXPECT_EQ(each.bytes_held(), 0U);
}

TEST(RmppReceiver, TakesSegmentsOfAWindowInAnyOrder) {
  RmppReceiver each = receiver();
  const auto segments = segments_of(1000);
  ASSERT_TRUE(each.handle_data(segments[0]));
  EXPECT_FALSE(each.handle_data(segments[3]));
  EXPECT_FALSE(each.handle_data(segments[4]));
  EXPECT_FALSE(each.handle_data(segments[2]));
  EXPECT_EQ(each.handle_data(segments[0])->data1, 1U);
  EXPECT_EQ(each.handle_data(segments[1])->data1, 5U);
  EXPECT_EQ(each.take().data, pattern(1000));
}

TEST(RmppReceiver, IgnoresWhatIsBehindTheWindow) {
  RmppReceiver each = receiver();
  const auto segments = segments_of(2000);
  EXPECT_FALSE(each.handle_data(segments[1]));  // the first one must be acknowledged alone
  ASSERT_TRUE(each.handle_data(segments[0]));
  EXPECT_FALSE(each.handle_data(segments[5]));
  EXPECT_EQ(each.bytes_held(), 200U);
  EXPECT_EQ(each.state(), RmppReceiver::State::Receiving);
}

/// A segment behind a gap is not affected by a duplicate that claims to be the last one with
/// another length.
TEST(RmppReceiver, KeepsAnEarlySegmentAsItCame) {
  RmppReceiver each = receiver();
  const auto segments = segments_of(1000);  // 5 of 200
  // The first segment does not contain the message length.
  static_cast<void>(
      each.handle_data(changed(segments[0], [](wire::Rmpp& rmpp) { rmpp.data2 = 0; })));
  EXPECT_FALSE(each.handle_data(segments[2]));
  EXPECT_FALSE(each.handle_data(changed(segments[2], [](wire::Rmpp& rmpp) {
    rmpp.is_last = true;
    rmpp.data2 = 20 + 200;
  })));
  for (const std::size_t i : {1U, 3U, 4U}) {
    static_cast<void>(each.handle_data(segments[i]));
  }
  ASSERT_EQ(each.state(), RmppReceiver::State::Complete);
  EXPECT_EQ(each.take().data, pattern(1000));
}

TEST(RmppReceiver, AbortsWhatContradictsItself) {
  const auto segments = segments_of(500);
  const auto status_after = [&](auto change, std::size_t which) {
    RmppReceiver each = receiver();
    if (which != 0) {
      (void)each.handle_data(segments[0]);
    }
    const auto answer = each.handle_data(changed(segments[which], change));
    EXPECT_TRUE(answer && answer->type == wire::RmppType::Abort);
    EXPECT_EQ(each.bytes_held(), 0U);
    return answer ? answer->status : wire::RmppStatus::Normal;
  };
  using wire::Rmpp;
  using wire::RmppStatus;
  EXPECT_EQ(status_after([](Rmpp& rmpp) { rmpp.version = 2; }, 0), RmppStatus::UnsupportedVersion);
  EXPECT_EQ(status_after([](Rmpp& rmpp) { rmpp.status = RmppStatus::BadType; }, 0),
            RmppStatus::IllegalStatus);
  EXPECT_EQ(status_after([](Rmpp& rmpp) { rmpp.is_first = false; }, 0),
            RmppStatus::InconsistentFirstAndSegmentNumber);
  EXPECT_EQ(status_after([](Rmpp& rmpp) { rmpp.is_first = true; }, 1),
            RmppStatus::InconsistentFirstAndSegmentNumber);
  EXPECT_EQ(status_after([](Rmpp& rmpp) { rmpp.data2 = 221; }, 2),
            RmppStatus::InconsistentLastAndPayloadLength);
  EXPECT_EQ(status_after([](Rmpp& rmpp) { rmpp.data2 = 19; }, 2),
            RmppStatus::InconsistentLastAndPayloadLength);
  EXPECT_EQ(status_after(
                [](Rmpp& rmpp) {
                  rmpp.is_last = true;
                  rmpp.data2 = 220;
                },
                1),
            RmppStatus::InconsistentLastAndPayloadLength);
  EXPECT_EQ(status_after([](Rmpp& rmpp) { rmpp.is_last = false; }, 2),
            RmppStatus::InconsistentLastAndPayloadLength);
  EXPECT_EQ(status_after([](Rmpp& rmpp) { rmpp.data2 = 220; }, 0),
            RmppStatus::InconsistentLastAndPayloadLength);
}

TEST(RmppReceiver, StopsMessagesThatAreTooLong) {
  RmppReceiver each = receiver();
  const auto stop = each.handle_data(
      changed(segments_of(1000)[0], [](wire::Rmpp& rmpp) { rmpp.data2 = 200'000; }));
  ASSERT_TRUE(stop);
  EXPECT_EQ(stop->type, wire::RmppType::Stop);
  EXPECT_EQ(stop->status, wire::RmppStatus::ResourcesExhausted);

  RmppReceiver unannounced{
      wire::ManagementClass::SubnAdm,
      {.window = 4, .message_bytes = 500, .total_time = Duration::seconds(1)},
      kStart
  };
  std::optional<wire::Rmpp> answer;
  for (const MadBytes& segment : segments_of(1000)) {
    answer = unannounced.handle_data(
        changed(segment, [](wire::Rmpp& rmpp) { rmpp.data2 = rmpp.is_last ? rmpp.data2 : 0; }));
    EXPECT_LE(unannounced.bytes_held(), 600U);
  }
  EXPECT_EQ(answer->type, wire::RmppType::Stop);
}

TEST(RmppReceiver, AbortsWhenItsTimeIsOver) {
  RmppReceiver each = receiver();
  (void)each.handle_data(segments_of(1000)[0]);
  EXPECT_FALSE(each.handle_timeout(kStart));
  const auto abort = each.handle_timeout(each.deadline());
  ASSERT_TRUE(abort);
  EXPECT_EQ(abort->status, wire::RmppStatus::TotalTimeTooLong);
  EXPECT_EQ(each.deadline(), Instant::never());
}

}  // namespace
}  // namespace weft::mad
