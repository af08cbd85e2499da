// What a netlink socket is: types, addresses, groups, options.

#include <fcntl.h>

#include <cerrno>

#include "netlink_host.h"

namespace weft {
namespace {

using Sockets = NetlinkHost;

template <class T>
T option(int fd, int level, int name) {
  T value{};
  socklen_t length = sizeof value;
  EXPECT_EQ(getsockopt(fd, level, name, &value, &length), 0) << std::strerror(errno);
  EXPECT_EQ(length, sizeof value);
  return value;
}

TEST_F(Sockets, SayThatTheyAreNetlink) {
  for (const int type : {SOCK_RAW, SOCK_DGRAM}) {
    const os::UniqueFd fd = open_socket(type | SOCK_NONBLOCK);
    EXPECT_EQ(option<int>(fd.get(), SOL_SOCKET, SO_DOMAIN), AF_NETLINK);
    EXPECT_EQ(option<int>(fd.get(), SOL_SOCKET, SO_TYPE), type);
    EXPECT_EQ(option<int>(fd.get(), SOL_SOCKET, SO_PROTOCOL), NETLINK_RDMA);
    EXPECT_EQ(fcntl(fd.get(), F_GETFD) & FD_CLOEXEC, 0);
    EXPECT_NE(fcntl(fd.get(), F_GETFL) & O_NONBLOCK, 0);
  }
  const os::UniqueFd fd = open_socket(SOCK_RAW | SOCK_CLOEXEC);
  EXPECT_EQ(fcntl(fd.get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  EXPECT_EQ(fcntl(fd.get(), F_GETFL) & O_NONBLOCK, 0);
  EXPECT_EQ(::socket(AF_NETLINK, SOCK_STREAM, NETLINK_RDMA), -1);
  EXPECT_EQ(errno, ESOCKTNOSUPPORT);
}

TEST_F(Sockets, AreThereOnAHostOfALivingFabricOnly) {
  fabric_.end();
  EXPECT_EQ(::socket(AF_NETLINK, SOCK_RAW, NETLINK_RDMA), -1);
  EXPECT_EQ(errno, EPROTONOSUPPORT);
}

TEST_F(Sockets, HaveTheNumberOfTheirProcessAsAddress) {
  const os::UniqueFd first = open_socket();
  const os::UniqueFd second = open_socket();
  sockaddr_nl address = netlink_address(0);
  socklen_t length = sizeof address;
  ASSERT_EQ(getsockname(first.get(), generic(address), &length), 0);
  EXPECT_EQ(address.nl_pid, 0U) << "not bound";
  for (const os::UniqueFd* each : {&first, &second}) {
    sockaddr_nl any = netlink_address(0, 1U << 2);
    ASSERT_EQ(bind(each->get(), generic(any), sizeof any), 0);
  }
  ASSERT_EQ(getsockname(first.get(), generic(address), &length), 0);
  EXPECT_EQ(length, sizeof address);
  EXPECT_EQ(address.nl_family, AF_NETLINK);
  EXPECT_EQ(address.nl_pid, static_cast<std::uint32_t>(getpid()));
  EXPECT_EQ(address.nl_groups, 1U << 2);
  const std::uint32_t taken = address.nl_pid;
  ASSERT_EQ(getsockname(second.get(), generic(address), &length), 0);
  EXPECT_NE(address.nl_pid, taken);
  const os::UniqueFd third = open_socket();
  sockaddr_nl wanted = netlink_address(taken);
  EXPECT_EQ(bind(third.get(), generic(wanted), sizeof wanted), -1);
  EXPECT_EQ(errno, EADDRINUSE);
  wanted.nl_family = AF_INET;
  EXPECT_EQ(bind(third.get(), generic(wanted), sizeof wanted), -1);
  EXPECT_EQ(errno, EINVAL);
  wanted.nl_family = AF_NETLINK;
  EXPECT_EQ(bind(third.get(), generic(wanted), 4), -1);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(Sockets, AreConnectedAndNot) {
  const os::UniqueFd fd = open_socket();
  sockaddr_nl peer = netlink_address(77);
  ASSERT_EQ(connect(fd.get(), generic(peer), sizeof peer), 0);
  sockaddr_nl address{};
  socklen_t length = sizeof address;
  ASSERT_EQ(getpeername(fd.get(), generic(address), &length), 0);
  EXPECT_EQ(address.nl_pid, 77U);
  const auto datagram = list_devices();
  EXPECT_EQ(send(fd.get(), datagram.data(), datagram.size(), 0), -1);
  EXPECT_EQ(errno, ECONNREFUSED) << "nobody has that address";
  peer.nl_family = AF_UNSPEC;
  ASSERT_EQ(connect(fd.get(), generic(peer), sizeof peer), 0);
  EXPECT_EQ(send(fd.get(), datagram.data(), datagram.size(), 0),
            static_cast<ssize_t>(datagram.size()));
  expect_devices(fd.get());
}

TEST_F(Sockets, HaveOptionsAsLinuxSays) {
  const os::UniqueFd fd = open_socket();
  const auto set = [&](int name, int value) {
    return setsockopt(fd.get(), SOL_NETLINK, name, &value, sizeof value);
  };
  for (const int name : {NETLINK_PKTINFO, NETLINK_NO_ENOBUFS, NETLINK_EXT_ACK, NETLINK_CAP_ACK,
                         NETLINK_GET_STRICT_CHK, NETLINK_BROADCAST_ERROR}) {
    EXPECT_EQ(option<int>(fd.get(), SOL_NETLINK, name), 0);
    EXPECT_EQ(set(name, 1), 0) << name;
    EXPECT_EQ(option<int>(fd.get(), SOL_NETLINK, name), 1);
    EXPECT_EQ(set(name, 0), 0) << name;
    EXPECT_EQ(option<int>(fd.get(), SOL_NETLINK, name), 0);
  }
  EXPECT_EQ(set(99, 1), -1);
  EXPECT_EQ(errno, ENOPROTOOPT);
  EXPECT_EQ(set(NETLINK_ADD_MEMBERSHIP, RDMA_NL_GROUP_LS), 0);
  EXPECT_EQ(set(NETLINK_ADD_MEMBERSHIP, RDMA_NL_GROUP_IWPM), 0);
  EXPECT_EQ(option<std::uint32_t>(fd.get(), SOL_NETLINK, NETLINK_LIST_MEMBERSHIPS),
            1U << (RDMA_NL_GROUP_LS - 1) | 1U << (RDMA_NL_GROUP_IWPM - 1));
  EXPECT_EQ(set(NETLINK_DROP_MEMBERSHIP, RDMA_NL_GROUP_IWPM), 0);
  EXPECT_EQ(option<std::uint32_t>(fd.get(), SOL_NETLINK, NETLINK_LIST_MEMBERSHIPS),
            1U << (RDMA_NL_GROUP_LS - 1));
  EXPECT_EQ(set(NETLINK_ADD_MEMBERSHIP, 0), -1);
  EXPECT_EQ(errno, EINVAL);
  char small = 1;
  EXPECT_EQ(setsockopt(fd.get(), SOL_NETLINK, NETLINK_PKTINFO, &small, sizeof small), -1);
  EXPECT_EQ(errno, EINVAL);
  const int room = 16'384;
  EXPECT_EQ(setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &room, sizeof room), 0);
  EXPECT_EQ(option<int>(fd.get(), SOL_SOCKET, SO_RCVBUF), 2 * room) << "as Linux doubles it";
  EXPECT_EQ(shutdown(fd.get(), SHUT_RDWR), -1);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(listen(fd.get(), 1), -1);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

}  // namespace
}  // namespace weft
