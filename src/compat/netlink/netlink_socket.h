#pragma once

// RDMA netlink sockets of a program on a simulated host: descriptors of connections to the fabric's
// daemon (uabi/netlink_frames.h). Nothing here throws, allocates or waits without a bound, and
// errno says what failed, as with system calls. Any thread.

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <atomic>
#include <climits>
#include <cstddef>
#include <cstdint>

#include "uabi/netlink_frames.h"

namespace weft::compat {

/// Descriptors that can be such sockets; policy.
inline constexpr int kMaxDescriptors = 65'536;

/// One bit for each descriptor that may be such a socket. One that is not set is not: that is all
/// that other descriptors pay for.
inline constinit std::array<std::atomic<std::uint64_t>, kMaxDescriptors / 64> suspects{};

[[nodiscard]] inline bool is_suspect(int fd) {
  return static_cast<unsigned>(fd) < static_cast<unsigned>(kMaxDescriptors) &&
         (suspects[static_cast<unsigned>(fd) / 64].load(std::memory_order_relaxed) >>
              (static_cast<unsigned>(fd) % 64) &
          1) != 0;
}

/// Asks the kernel, since descriptors are closed by calls that nobody sees: whether the
/// descriptor's peer is a daemon's netlink socket.
[[gnu::cold]] [[nodiscard]] bool is_connected_to_daemon(int fd);

[[nodiscard]] inline bool is_netlink(int fd) {
  return is_suspect(fd) && is_connected_to_daemon(fd);
}

/// The descriptor is one, or a copy of one.
void note_netlink(int fd);
/// It was closed.
void forget_netlink(int fd);

/// Whether this program is on a simulated host (WEFT_RUN, WEFT_FABRIC, WEFT_HOST).
[[nodiscard]] bool is_on_host();

/// socket(AF_NETLINK, type, NETLINK_RDMA): -1 with errno EPROTONOSUPPORT if no daemon answers.
[[nodiscard]] int open_netlink(int type);

/// Sends a frame, with what `parts` hold behind it, and waits for the daemon's answer. False with
/// errno: it was refused, or the daemon does not answer.
[[nodiscard]] bool ask_daemon(int fd, const uabi::NetlinkFrameHead& head, const iovec* parts,
                              std::size_t count, uabi::NetlinkAnswer& answer);

/// As sendmsg() and recvmsg() on a netlink socket.
[[nodiscard]] ssize_t send_netlink(int fd, const msghdr& message, int flags);
[[nodiscard]] ssize_t receive_netlink(int fd, msghdr& message, int flags);

}  // namespace weft::compat
