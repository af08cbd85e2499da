#pragma once

// For tests that are a program on a simulated host: a fabric, and requests as bytes.

#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <poll.h>
#include <rdma/rdma_netlink.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "daemon/testing/live_fabric.h"
#include "os/unique_fd.h"

namespace weft {

/// This process is on host h1 of a pair, as under `weft exec`.
class NetlinkHost : public ::testing::Test {
 protected:
  NetlinkHost() {
    fabric_.show_to_this_process();
    setenv("WEFT_HOST", "h1", 1);
  }
  ~NetlinkHost() override { unsetenv("WEFT_HOST"); }

  static os::UniqueFd open_socket(int type = SOCK_RAW | SOCK_CLOEXEC) {
    os::UniqueFd fd{::socket(AF_NETLINK, type, NETLINK_RDMA)};
    EXPECT_TRUE(fd) << std::strerror(errno);
    return fd;
  }

  daemon::testing::LiveFabric fabric_{"pair"};
};

[[nodiscard]] inline sockaddr_nl netlink_address(std::uint32_t port, std::uint32_t groups = 0) {
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_pid = port;
  address.nl_groups = groups;
  return address;
}

[[nodiscard]] inline sockaddr* generic(sockaddr_nl& address) {
  return static_cast<sockaddr*>(static_cast<void*>(&address));
}

/// NLDEV's request of a command, without attributes.
[[nodiscard]] inline std::vector<char> nldev_request(unsigned command, unsigned flags,
                                                     std::uint32_t sequence = 1) {
  nlmsghdr header{};
  header.nlmsg_len = sizeof header;
  header.nlmsg_type = static_cast<std::uint16_t>(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command));
  header.nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | flags);
  header.nlmsg_seq = sequence;
  std::vector<char> bytes(sizeof header);
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

[[nodiscard]] inline std::vector<char> list_devices(std::uint32_t sequence = 1) {
  return nldev_request(RDMA_NLDEV_CMD_GET, NLM_F_DUMP, sequence);
}

[[nodiscard]] inline nlmsghdr header_of(const void* bytes) {
  nlmsghdr header{};
  std::memcpy(&header, bytes, sizeof header);
  return header;
}

/// Whether the descriptor is readable within a bound.
[[nodiscard]] inline bool is_readable(int fd, int milliseconds = 20'000) {
  pollfd ready{.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&ready, 1, milliseconds) == 1 && (ready.revents & POLLIN) != 0;
}

/// A dump of devices comes whole: weft0, then the end.
inline void expect_devices(int fd, std::uint32_t sequence = 1) {
  std::array<char, 16'384> buffer{};
  std::string names;
  for (bool is_over = false; !is_over;) {
    ASSERT_TRUE(is_readable(fd));
    ssize_t left = recv(fd, buffer.data(), buffer.size(), 0);
    ASSERT_GT(left, 0) << std::strerror(errno);
    for (const char* at = buffer.data(); left >= static_cast<ssize_t>(sizeof(nlmsghdr));) {
      const nlmsghdr header = header_of(at);
      ASSERT_EQ(header.nlmsg_seq, sequence);
      is_over = header.nlmsg_type == NLMSG_DONE;
      names.append(at, header.nlmsg_len);
      at += NLMSG_ALIGN(header.nlmsg_len);
      left -= static_cast<ssize_t>(NLMSG_ALIGN(header.nlmsg_len));
    }
  }
  EXPECT_NE(names.find("weft0"), std::string::npos);
}

}  // namespace weft
