// Everything that is no RDMA netlink socket is as without the library.

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include <cerrno>

#include "netlink_host.h"

namespace weft {
namespace {

using Others = NetlinkHost;

/// A pipe that takes the place of a socket which was closed behind the library's back.
TEST_F(Others, ThatComeInAPlaceOfASocketAreThemselves) {
  for (const bool is_seen : {true, false}) {
    os::UniqueFd fd = open_socket();
    const int place = fd.release();
    if (is_seen) {
      close(place);
    } else {
      syscall(SYS_close, place);
    }
    std::array<int, 2> ends{};
    ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
    const os::UniqueFd from{ends[0]};
    const os::UniqueFd to{ends[1]};
    EXPECT_EQ(from.get(), place) << "the lowest number that is free";
    EXPECT_EQ(write(to.get(), "pipe", 4), 4);
    std::array<char, 8> buffer{};
    EXPECT_EQ(read(from.get(), buffer.data(), buffer.size()), 4);
    EXPECT_EQ(std::string_view(buffer.data(), 4), "pipe");
    EXPECT_EQ(recv(from.get(), buffer.data(), buffer.size(), 0), -1);
    EXPECT_EQ(errno, ENOTSOCK);
  }
}

TEST_F(Others, NetlinkOfOtherFamiliesIsTheKernels) {
  const os::UniqueFd fd{::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE)};
  ASSERT_TRUE(fd);
  sockaddr_nl any = netlink_address(0);
  ASSERT_EQ(bind(fd.get(), generic(any), sizeof any), 0);
  struct {
    nlmsghdr header;
    char family[4];
  } request{};
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = 18;  // RTM_GETLINK
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  ASSERT_EQ(send(fd.get(), &request, sizeof request, 0), static_cast<ssize_t>(sizeof request));
  std::array<char, 32'768> buffer{};
  EXPECT_GT(recv(fd.get(), buffer.data(), buffer.size(), 0), 0);
}

TEST_F(Others, SocketsOfTheUnixFamilyKeepTheirAddresses) {
  std::array<int, 2> ends{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
  const os::UniqueFd one{ends[0]};
  const os::UniqueFd other{ends[1]};
  sockaddr_un address{};
  socklen_t length = sizeof address;
  EXPECT_EQ(getsockname(one.get(), static_cast<sockaddr*>(static_cast<void*>(&address)), &length),
            0);
  EXPECT_EQ(address.sun_family, AF_UNIX);
  EXPECT_EQ(send(one.get(), "abc", 3, 0), 3);
  std::array<char, 8> buffer{};
  EXPECT_EQ(recv(other.get(), buffer.data(), buffer.size(), 0), 3);
  EXPECT_EQ(fcntl(one.get(), F_GETFD), FD_CLOEXEC);
  const int copy = fcntl(one.get(), F_DUPFD, 50);
  EXPECT_GE(copy, 50);
  EXPECT_EQ(close(copy), 0);
  EXPECT_EQ(close(copy), -1);
  EXPECT_EQ(errno, EBADF);
}

TEST_F(Others, OutsideAHostTheKernelIsAsked) {
  unsetenv("WEFT_HOST");
  const int fd = ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA);
  const int error = errno;
  const long asked = syscall(SYS_socket, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA);
  const int without = errno;
  EXPECT_EQ(fd < 0, asked < 0);
  if (fd < 0) {
    EXPECT_EQ(error, without);
  } else {
    close(fd);
    close(static_cast<int>(asked));
  }
}

}  // namespace
}  // namespace weft
