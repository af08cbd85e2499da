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

TEST(NetlinkSocket, SendsAndReceivesManyAtOnceInOrder) {
  auto one = NetlinkSocket::open(NETLINK_USERSOCK, {});
  auto other = NetlinkSocket::open(NETLINK_USERSOCK, {});
  ASSERT_TRUE(one && other);
  EXPECT_TRUE(one->receive_many().value().empty());
  std::vector<std::vector<std::byte>> datagrams(NetlinkSocket::kTogether + 2, message());
  for (std::size_t i = 0; i < datagrams.size(); ++i) {
    datagrams[i].back() = static_cast<std::byte>(i);
  }
  ASSERT_TRUE(other->send_many(one->port(), datagrams));
  std::vector<std::byte> last_octets;
  for (const std::size_t wanted : {NetlinkSocket::kTogether, std::size_t{2}, std::size_t{0}}) {
    const auto received = one->receive_many().value();
    ASSERT_EQ(received.size(), wanted);
    for (const auto& each : received) {
      EXPECT_EQ(each.port, other->port());
      ASSERT_EQ(each.bytes.size(), message().size());
      last_octets.push_back(each.bytes.back());
    }
  }
  for (std::size_t i = 0; i < last_octets.size(); ++i) {
    EXPECT_EQ(last_octets[i], static_cast<std::byte>(i));
  }
  EXPECT_EQ(other->send_many(0x7FFF'FFF0, datagrams).error().code, ErrorCode::Refused);
}

TEST(NetlinkSocket, RefusesAnAddressThatNobodyHasAndAProtocolThatIsNot) {
  auto one = NetlinkSocket::open(NETLINK_USERSOCK, {});
  ASSERT_TRUE(one);
  EXPECT_EQ(one->send(0x7FFF'FFF0, 0, message()).error().code, ErrorCode::Refused);
  EXPECT_EQ(NetlinkSocket::open(31, {}).error().code, ErrorCode::NotSupported);
}

}  // namespace
}  // namespace weft::os
