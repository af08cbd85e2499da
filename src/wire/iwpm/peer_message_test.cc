#include "wire/iwpm/peer_message.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <vector>

namespace weft::wire::iwpm {
namespace {

std::vector<std::byte> octets(std::initializer_list<unsigned> values) {
  std::vector<std::byte> bytes;
  for (const unsigned value : values) {
    bytes.push_back(static_cast<std::byte>(value));
  }
  return bytes;
}

const SocketAddress kConnecting{IpAddress::v4(0x0A4D'0002), 51155};
const SocketAddress kAccepting{IpAddress::v4(0x0A4D'0001), 7174};
constexpr std::uint64_t kHandle = 0x0000'55EB'9C09'9A50;

// From Debian's iwpmd 44 and siw in two guests, with the octets that it leaves behind IPv4
// addresses.
std::vector<std::byte> captured_request() {
  return octets({0x04, 0x00, 0xc7, 0xd3, 0x1c, 0x06, 0xc7, 0xd3, 0x00, 0x00, 0x55, 0xeb, 0x9c,
                 0x09, 0x9a, 0x50, 0x0a, 0x4d, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
                 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x0a, 0x4d, 0x00, 0x01, 0xf1, 0x7a, 0xeb,
                 0x55, 0x00, 0x00, 0x38, 0x00, 0x00, 0x00, 0x00, 0x00, 0x0a, 0x4d, 0x00, 0x02,
                 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x30, 0xf9});
}

std::vector<std::byte> captured_accept() {
  return octets({0x14, 0x00, 0x00, 0x00, 0x1c, 0x06, 0xc7, 0xd3, 0x00, 0x00, 0x55, 0xeb,
                 0x9c, 0x09, 0x9a, 0x50, 0x0a, 0x4d, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00,
                 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x0a, 0x4d, 0x00, 0x01,
                 0xf1, 0x7a, 0xeb, 0x55, 0x00, 0x00, 0x38, 0x00, 0x00, 0x00, 0x00, 0x00});
}

TEST(IwpmPeerMessage, FromCapture) {
  const auto request = parse_peer_message(captured_request());
  ASSERT_TRUE(request.has_value()) << request.error().reason;
  EXPECT_EQ(*request, (PeerMessage{.type = IwpmMessageType::Request,
                                   .handle = kHandle,
                                   .connecting = kConnecting,
                                   .accepting = kAccepting,
                                   .mapped_connecting = kConnecting}));
  auto accept = captured_accept();
  EXPECT_EQ(parse_peer_message(accept)->type, IwpmMessageType::Accept);
  EXPECT_EQ(parse_peer_message(accept)->handle, kHandle);
  accept[0] = std::byte{0x24};  // the acknowledgement differs in this octet only
  EXPECT_EQ(parse_peer_message(accept)->type, IwpmMessageType::Ack);
}

TEST(IwpmPeerMessage, EqualsTheCaptureButForWhatFollowsIpv4Addresses) {
  auto expected = captured_request();
  for (const std::size_t field : {16U, 32U, 48U}) {
    for (std::size_t at = field + 4; at < field + 16; ++at) {
      expected[at] = std::byte{0};
    }
  }
  EXPECT_EQ(to_datagram(*parse_peer_message(captured_request())), expected);
}

TEST(IwpmPeerMessage, RoundTripsInBothFamilies) {
  const SocketAddress v6{IpAddress::v6(0x2001'0DB8'0000'0000, 7), 1};
  for (const auto type : {IwpmMessageType::Request, IwpmMessageType::Accept, IwpmMessageType::Ack,
                          IwpmMessageType::Reject}) {
    for (const SocketAddress& address : {kAccepting, v6}) {
      PeerMessage message{.type = type,
                          .handle = 0xFEDC'BA98'7654'3210,
                          .connecting = address.with_port(2),
                          .accepting = address,
                          .mapped_connecting = {}};
      if (type == IwpmMessageType::Request) {
        message.mapped_connecting = address.with_port(3);
      }
      const auto datagram = to_datagram(message);
      EXPECT_EQ(datagram.size(), type == IwpmMessageType::Request ? 64U : 48U);
      EXPECT_EQ(parse_peer_message(datagram).value_or(PeerMessage{}), message);
    }
  }
}

TEST(IwpmPeerMessage, RefusesOtherLengthsAndVersions) {
  const auto request = captured_request();
  for (std::size_t length = 0; length < request.size(); ++length) {
    EXPECT_FALSE(parse_peer_message(ByteSpan{request}.first(length)).has_value()) << length;
  }
  auto longer = request;
  longer.push_back({});
  EXPECT_FALSE(parse_peer_message(longer).has_value());
  for (const unsigned first : {0x44U, 0x05U, 0x00U, 0x0FU}) {
    auto other = request;
    other[0] = static_cast<std::byte>(first);
    EXPECT_FALSE(parse_peer_message(other).has_value()) << first;
  }
}

}  // namespace
}  // namespace weft::wire::iwpm
