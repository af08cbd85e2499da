#include "wire/netlink/message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/netlink.h>

#include <array>
#include <bit>
#include <vector>

#include "base/random.h"

namespace weft::wire::netlink {
namespace {

static_assert(sizeof(nlmsghdr) == kHeaderBytes && sizeof(nlattr) == kAttributeHeaderBytes);
static_assert(NLMSG_ERROR == kTypeError && NLMSG_DONE == kTypeDone && NLMSG_MIN_TYPE == kTypeMin);
static_assert(NLM_F_REQUEST == kFlagRequest && NLM_F_MULTI == kFlagMulti && NLM_F_ACK == kFlagAck);
static_assert(NLM_F_DUMP == kFlagDump && NLM_F_CAPPED == kFlagCapped);

constexpr Header kRequest{
    .length = 0, .type = 0x1401, .flags = kFlagRequest | kFlagAck, .sequence = 7, .port = 99};

/// What Linux would see at a place of the datagram.
template <class T>
[[nodiscard]] T at(ByteSpan bytes, std::size_t offset) {
  std::array<std::byte, sizeof(T)> octets{};
  copy_bytes(octets, bytes.subspan(offset, octets.size()));
  return std::bit_cast<T>(octets);
}

std::vector<std::byte> sample() {
  std::vector<std::byte> datagram;
  MessageWriter writer{datagram};
  writer.begin(kRequest);
  writer.put_number(1, std::uint32_t{0xA1B2C3D4});
  writer.put_text(2, "weft0");
  const std::size_t nested = writer.begin_nested(3);
  writer.put_number(4, std::uint8_t{5});
  writer.end_nested(nested);
  writer.end();
  return datagram;
}

TEST(NetlinkMessage, IsLaidOutAsLinuxDeclaresIt) {
  const auto datagram = sample();
  const auto header = at<nlmsghdr>(datagram, 0);
  EXPECT_EQ(header.nlmsg_len, datagram.size());
  EXPECT_EQ(header.nlmsg_type, kRequest.type);
  EXPECT_EQ(header.nlmsg_flags, NLM_F_REQUEST | NLM_F_ACK);
  EXPECT_EQ(header.nlmsg_seq, 7U);
  EXPECT_EQ(header.nlmsg_pid, 99U);
  auto attribute = at<nlattr>(datagram, 24);
  EXPECT_EQ(attribute.nla_len, 4 + 6);
  EXPECT_EQ(attribute.nla_type, 2);
  attribute = at<nlattr>(datagram, 36);
  EXPECT_EQ(attribute.nla_len, 12);
}

TEST(NetlinkMessage, RoundTrips) {
  const auto datagram = sample();
  ByteSpan rest = datagram;
  const auto message = take_message(rest);
  ASSERT_TRUE(message.has_value());
  EXPECT_TRUE(rest.empty());
  const auto attributes = parse_attributes(message->payload);
  ASSERT_EQ(attributes.size(), 3U);
  EXPECT_EQ(find(attributes, 1)->number<std::uint32_t>(), 0xA1B2C3D4U);
  EXPECT_EQ(find(attributes, 1)->number<std::uint16_t>(), std::nullopt);
  EXPECT_EQ(find(attributes, 2)->text(), "weft0");
  EXPECT_EQ(find(parse_attributes(find(attributes, 3)->value), 4)->number<std::uint8_t>(), 5);
  EXPECT_EQ(find(attributes, 9), nullptr);
}

TEST(NetlinkMessage, EndsWhereALengthDoesNotFit) {
  const auto datagram = sample();
  for (std::size_t length = 0; length < datagram.size(); ++length) {
    ByteSpan rest = ByteSpan{datagram}.first(length);
    EXPECT_FALSE(take_message(rest).has_value()) << length;
  }
  auto shorter = datagram;
  shorter[0] = std::byte{kHeaderBytes - 1};
  ByteSpan rest = shorter;
  EXPECT_FALSE(take_message(rest).has_value());
  // Of attributes those before the bad one count.
  auto bad = datagram;
  bad[24] = std::byte{200};
  rest = bad;
  EXPECT_EQ(parse_attributes(take_message(rest)->payload).size(), 1U);
}

TEST(NetlinkMessage, TextEndsWithANul) {
  const std::array bytes = {std::byte{'a'}, std::byte{'b'}};
  EXPECT_EQ((Attribute{.value = bytes}).text(), std::nullopt);
  const std::array nul = {std::byte{0}};
  EXPECT_EQ((Attribute{.value = nul}).text(), "");
}

TEST(NetlinkMessage, ErrorHasTheRequestAndAnAcknowledgementItsHeader) {
  const auto datagram = sample();
  ByteSpan rest = datagram;
  const auto request = take_message(rest);
  std::vector<std::byte> answers;
  put_error(answers, *request, -22);
  put_error(answers, *request, 0);
  put_done(answers, request->header);
  rest = answers;
  const auto error = take_message(rest);
  EXPECT_EQ(error->header.type, kTypeError);
  EXPECT_EQ(error->header.sequence, 7U);
  const int number = at<int>(error->payload, 0);
  EXPECT_EQ(number, -22);
  EXPECT_EQ(error->payload.size(), sizeof number + datagram.size());
  const auto acknowledgement = take_message(rest);
  EXPECT_EQ(acknowledgement->payload.size(), sizeof number + kHeaderBytes);
  EXPECT_EQ(acknowledgement->header.flags, kFlagCapped);
  EXPECT_EQ(take_message(rest)->header.type, kTypeDone);
  EXPECT_TRUE(rest.empty());
}

TEST(NetlinkMessage, SurvivesRubbish) {
  Random random{1};
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::byte> bytes(random.below(64));
    for (std::byte& byte : bytes) {
      byte = static_cast<std::byte>(random.below(random.below(4) == 0 ? 256 : 20));
    }
    ByteSpan rest = bytes;
    while (const auto message = take_message(rest)) {
      for (const Attribute& attribute : parse_attributes(message->payload)) {
        EXPECT_GE(attribute.value.data(), bytes.data());
        EXPECT_LE(attribute.value.data() + attribute.value.size(), bytes.data() + bytes.size());
      }
    }
  }
}

}  // namespace
}  // namespace weft::wire::netlink
