#include "ulp/iser/message.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "wire/iscsi/nop.h"

namespace weft::iser {
namespace {

std::vector<std::byte> nop_message(std::size_t data_bytes) {
  wire::iscsi::NopOut nop;
  nop.initiator_task_tag = 7;
  const iscsi::OutgoingPdu pdu{nop, std::vector<std::byte>(data_bytes, std::byte{0x5A})};
  return to_message({.has_read_stag = true, .read_stag = 9, .read_base_offset = 0x4000}, pdu);
}

TEST(IserMessage, IsHeaderPduAndDataInOnePiece) {
  const auto octets = nop_message(5);
  EXPECT_EQ(octets.size(), 28U + 48 + 5);
  const auto parsed = parse_message(octets);
  ASSERT_TRUE(parsed) << parsed.error().reason;
  const auto& message = std::get<ControlMessage>(*parsed);
  EXPECT_TRUE(message.header.has_read_stag && !message.header.has_write_stag);
  EXPECT_EQ(message.header.read_stag, 9U);
  EXPECT_EQ(message.pdu.as<wire::iscsi::NopOut>().initiator_task_tag, 7U);
  EXPECT_EQ(message.pdu.data.size(), 5U);
  EXPECT_TRUE(message.pdu.additional_headers.empty());
}

TEST(IserMessage, DataMayBePaddedButNotMore) {
  auto octets = nop_message(5);
  for (int padding = 1; padding <= 3; ++padding) {
    octets.push_back(std::byte{});
    const auto parsed = parse_message(octets);
    ASSERT_TRUE(parsed);
    EXPECT_EQ(std::get<ControlMessage>(*parsed).pdu.data.size(), 5U);
  }
  octets.push_back(std::byte{});
  EXPECT_FALSE(parse_message(octets));
}

TEST(IserMessage, RefusesWhatItsLengthsDoNotFit) {
  const auto whole = nop_message(5);
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    const auto parsed = parse_message(ByteSpan{whole}.first(bytes));
    ASSERT_FALSE(parsed) << bytes;
    EXPECT_FALSE(parsed.error().reason.empty());
  }
  auto with_headers = whole;
  with_headers[28 + 4] = std::byte{2};  // TotalAHSLength: 8 octets, which are not there
  EXPECT_FALSE(parse_message(with_headers));
  auto unknown = whole;
  unknown[0] = std::byte{0x40};
  EXPECT_FALSE(parse_message(unknown));
}

TEST(IserMessage, HelloAndItsReplyAreMessagesOfTheirOwn) {
  const auto hello = parse_message(wire::pack(wire::iser::Hello{.ird = 4}));
  ASSERT_TRUE(hello);
  EXPECT_EQ(std::get<wire::iser::Hello>(*hello).ird, 4);
  const auto reply = parse_message(wire::pack(wire::iser::HelloReply{.rejected = true}));
  ASSERT_TRUE(reply);
  EXPECT_TRUE(std::get<wire::iser::HelloReply>(*reply).rejected);
}

}  // namespace
}  // namespace weft::iser
