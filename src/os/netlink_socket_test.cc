#include "os/netlink_socket.h"

#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <poll.h>

#include <array>
#include <string_view>
#include <vector>

namespace weft::os {
namespace {

constexpr int kWaitMs = 5'000;

[[nodiscard]] std::vector<std::byte> message() {
  std::vector<std::byte> octets(sizeof(nlmsghdr));
  octets[0] = std::byte{sizeof(nlmsghdr)};
  return octets;
}

TEST(NetlinkSocket, SendsToAnotherAndSaysWhoSent) {
  auto one = NetlinkSocket::open(NETLINK_USERSOCK, {});
  auto other = NetlinkSocket::open(NETLINK_USERSOCK, {});
  ASSERT_TRUE(one && other);
  EXPECT_NE(one->port(), other->port());
  EXPECT_EQ(one->receive().value().has_value(), false);
  ASSERT_TRUE(other->send(one->port(), 0, message()));
  pollfd wait{.fd = one->fd(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(poll(&wait, 1, kWaitMs), 1);
  const auto received = one->receive().value();
  ASSERT_TRUE(received);
  EXPECT_EQ(received->port, other->port());
  EXPECT_FALSE(received->is_overrun);
  EXPECT_EQ(received->bytes.size(), message().size());
}

TEST(NetlinkSocket, RefusesAnAddressThatNobodyHasAndAProtocolThatIsNot) {
  auto one = NetlinkSocket::open(NETLINK_USERSOCK, {});
  ASSERT_TRUE(one);
  EXPECT_EQ(one->send(0x7FFF'FFF0, 0, message()).error().code, ErrorCode::Refused);
  EXPECT_EQ(NetlinkSocket::open(31, {}).error().code, ErrorCode::NotSupported);
}

}  // namespace
}  // namespace weft::os
