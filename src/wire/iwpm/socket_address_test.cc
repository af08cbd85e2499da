#include "wire/iwpm/socket_address.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <bit>
#include <span>

namespace weft::wire::iwpm {
namespace {

static_assert(sizeof(sockaddr_storage) == kSocketAddressBytes);
static_assert(AF_INET == kFamilyV4 && AF_INET6 == kFamilyV6 && AF_UNSPEC == kFamilyUnspecified);

/// What Linux would see at the beginning.
template <class T>
[[nodiscard]] T as(ByteSpan octets) {
  std::array<std::byte, sizeof(T)> copy{};
  copy_bytes(copy, octets.first(copy.size()));
  return std::bit_cast<T>(copy);
}

TEST(IwpmSocketAddress, IsLaidOutAsLinuxDeclaresIt) {
  const auto v4 = as<sockaddr_in>(pack_socket_address({IpAddress::v4(0x0A4D'0001), 7174}));
  EXPECT_EQ(v4.sin_family, AF_INET);
  EXPECT_EQ(ntohs(v4.sin_port), 7174);
  EXPECT_EQ(ntohl(v4.sin_addr.s_addr), 0x0A4D'0001U);
  SocketAddress address{IpAddress::v6(0xFE80'0000'0000'0000, 0x1234), 80};
  address.scope = 3;
  const auto v6 = as<sockaddr_in6>(pack_socket_address(address));
  EXPECT_EQ(v6.sin6_family, AF_INET6);
  EXPECT_EQ(ntohs(v6.sin6_port), 80);
  EXPECT_EQ(v6.sin6_addr.s6_addr[0], 0xFE);
  EXPECT_EQ(v6.sin6_addr.s6_addr[15], 0x34);
  EXPECT_EQ(v6.sin6_scope_id, 3U);
}

TEST(IwpmSocketAddress, RoundTrips) {
  SocketAddress scoped{IpAddress::v6(0xFE80'0000'0000'0000, 9), 65535};
  scoped.scope = 0xA1B2C3D4;
  for (const SocketAddress& address : {
           SocketAddress{IpAddress::v4(0),           0},
           SocketAddress{IpAddress::v4(0xFFFF'FFFE), 1},
           scoped
  }) {
    EXPECT_EQ(parse_socket_address(pack_socket_address(address)).value_or(SocketAddress{}), address)
        << to_string(address);
  }
}

TEST(IwpmSocketAddress, RefusesShortOnesAndKeepsNothingOfAnUnknownFamily) {
  const auto octets = pack_socket_address({IpAddress::v4(1), 2});
  EXPECT_FALSE(parse_socket_address(ByteSpan{octets}.first(kSocketAddressBytes - 1)).has_value());
  auto other = octets;
  other[0] = std::byte{7};
  const auto parsed = parse_socket_address(other);
  ASSERT_TRUE(parsed.has_value());
  EXPECT_FALSE(parsed->is_ip());
  EXPECT_EQ(parsed->port, 0);
  EXPECT_FALSE(parsed->is_same(*parsed));
  EXPECT_EQ(to_string(*parsed), "family 7");
}

TEST(IwpmSocketAddress, ReadsWell) {
  EXPECT_EQ(to_string(SocketAddress{IpAddress::v4(0x7F00'0001), 3935}), "127.0.0.1:3935");
  EXPECT_EQ(to_string(SocketAddress{IpAddress::v6(0, 1), 1}), "[::1]:1");
}

}  // namespace
}  // namespace weft::wire::iwpm
