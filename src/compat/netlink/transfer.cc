// Datagrams: what programs send and receive on their netlink sockets, by any of the C library's
// functions.

#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>

#include "compat/netlink/netlink_socket.h"
#include "compat/netlink/real.h"

#define WEFT_EXPORT [[gnu::visibility("default")]]

namespace weft::compat {
namespace {

constinit const Real<ssize_t(int, const void*, std::size_t, int)> real_send{"send"};
constinit const Real<ssize_t(int, const void*, std::size_t, int, const sockaddr*, socklen_t)>
    real_sendto{"sendto"};
constinit const Real<ssize_t(int, const msghdr*, int)> real_sendmsg{"sendmsg"};
constinit const Real<int(int, mmsghdr*, unsigned, int)> real_sendmmsg{"sendmmsg"};
constinit const Real<ssize_t(int, void*, std::size_t, int)> real_recv{"recv"};
constinit const Real<ssize_t(int, void*, std::size_t, int, sockaddr*, socklen_t*)> real_recvfrom{
    "recvfrom"};
constinit const Real<ssize_t(int, msghdr*, int)> real_recvmsg{"recvmsg"};
constinit const Real<int(int, mmsghdr*, unsigned, int, timespec*)> real_recvmmsg{"recvmmsg"};
constinit const Real<ssize_t(int, void*, std::size_t)> real_read{"read"};
constinit const Real<ssize_t(int, const void*, std::size_t)> real_write{"write"};
constinit const Real<ssize_t(int, const iovec*, int)> real_readv{"readv"};
constinit const Real<ssize_t(int, const iovec*, int)> real_writev{"writev"};
constinit const Real<ssize_t(int, void*, std::size_t, std::size_t)> real_read_chk{"__read_chk"};
constinit const Real<ssize_t(int, void*, std::size_t, std::size_t, int)> real_recv_chk{
    "__recv_chk"};
constinit const Real<ssize_t(int, void*, std::size_t, std::size_t, int, sockaddr*, socklen_t*)>
    real_recvfrom_chk{"__recvfrom_chk"};

[[nodiscard]] ssize_t failed(int error) {
  errno = error;
  return -1;
}

[[nodiscard]] bool has_rights(const msghdr& message) {
  auto& readable = const_cast<msghdr&>(message);
  for (cmsghdr* part = CMSG_FIRSTHDR(&readable); part != nullptr;
       part = CMSG_NXTHDR(&readable, part)) {
    if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS) {
      return true;
    }
  }
  return false;
}

/// In the control data that came: who sent the datagram, not who carried it; and its group.
void write_control(msghdr& message, std::size_t room, const uabi::NetlinkFrameHead& head) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_CREDENTIALS &&
        part->cmsg_len >= CMSG_LEN(sizeof(ucred))) {
      ucred sender{};  // the kernel
      if (head.port != 0) {
        sender = {.pid = static_cast<pid_t>(head.pid), .uid = getuid(), .gid = getgid()};
      }
      std::memcpy(CMSG_DATA(part), &sender, sizeof sender);
    }
  }
  if ((head.value & uabi::kHasPacketInfo) == 0) {
    return;
  }
  const nl_pktinfo group{.group = head.value & ~uabi::kHasPacketInfo};
  const std::size_t used = CMSG_ALIGN(message.msg_controllen);
  if (used + CMSG_SPACE(sizeof group) > room) {
    message.msg_flags |= MSG_CTRUNC;
    return;
  }
  const cmsghdr part{
      .cmsg_len = CMSG_LEN(sizeof group), .cmsg_level = SOL_NETLINK, .cmsg_type = NETLINK_PKTINFO};
  auto* const to = static_cast<std::byte*>(message.msg_control) + used;
  std::memset(to, 0, CMSG_SPACE(sizeof group));
  std::memcpy(to, &part, sizeof part);
  std::memcpy(to + CMSG_LEN(0), &group, sizeof group);
  message.msg_controllen = used + CMSG_SPACE(sizeof group);
}

void write_address(void* name, socklen_t& length, const uabi::NetlinkFrameHead& head) {
  const std::uint32_t group = head.value & ~uabi::kHasPacketInfo;
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_pid = head.port;
  address.nl_groups = group >= 1 && group <= 32 ? 1U << (group - 1) : 0;
  std::memcpy(name, &address, std::min<std::size_t>(length, sizeof address));
  length = sizeof address;
}

/// One buffer as a message.
[[nodiscard]] msghdr message_of(iovec& part) {
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  return message;
}

[[nodiscard]] ssize_t receive_into(int fd, void* buffer, std::size_t size, int flags,
                                   sockaddr* address, socklen_t* length) {
  iovec part{.iov_base = buffer, .iov_len = size};
  msghdr message = message_of(part);
  message.msg_name = address;
  message.msg_namelen = address != nullptr && length != nullptr ? *length : 0;
  const ssize_t count = receive_netlink(fd, message, flags);
  if (count >= 0 && address != nullptr && length != nullptr) {
    *length = message.msg_namelen;
  }
  return count;
}

[[nodiscard]] ssize_t send_from(int fd, const void* buffer, std::size_t size, int flags,
                                const sockaddr* address, socklen_t length) {
  iovec part{.iov_base = const_cast<void*>(buffer), .iov_len = size};
  msghdr message = message_of(part);
  message.msg_name = const_cast<sockaddr*>(address);
  message.msg_namelen = address == nullptr ? 0 : length;
  return send_netlink(fd, message, flags);
}

[[nodiscard]] bool is_past(const timespec& deadline) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec > deadline.tv_sec ||
         (now.tv_sec == deadline.tv_sec && now.tv_nsec >= deadline.tv_nsec);
}

/// Messages that are handed to the daemon in one frame; policy.
constexpr unsigned kTogether = 64;

/// Where the message goes, if it may go together with others: to one program by its port.
[[nodiscard]] std::uint32_t port_of_one(const msghdr& message) {
  sockaddr_nl to{};
  if (message.msg_name == nullptr || message.msg_namelen < sizeof to || message.msg_iovlen != 1 ||
      message.msg_iov[0].iov_len == 0 || message.msg_controllen != 0) {
    return 0;
  }
  std::memcpy(&to, message.msg_name, sizeof to);
  return to.nl_family == AF_NETLINK && to.nl_groups == 0 ? to.nl_pid : 0;
}

/// How many messages from the first on go to the same program, and fit a frame.
[[nodiscard]] unsigned together(const mmsghdr* messages, unsigned count) {
  const std::uint32_t port = count == 0 ? 0 : port_of_one(messages[0].msg_hdr);
  std::size_t octets = 0;
  unsigned run = 0;
  while (port != 0 && run < std::min(count, kTogether) &&
         port_of_one(messages[run].msg_hdr) == port) {
    const std::size_t length = messages[run].msg_hdr.msg_iov[0].iov_len;
    octets += sizeof(std::uint32_t) + length;
    if (length > uabi::kMaxNetlinkDatagram || octets > uabi::kMaxNetlinkDatagram) {
      break;
    }
    ++run;
  }
  return run;
}

/// One frame for all of them; how many were taken, or -1 with errno.
[[nodiscard]] int send_together(int fd, mmsghdr* messages, unsigned count) {
  std::array<std::uint32_t, kTogether> lengths{};
  std::array<iovec, 2 * kTogether> parts{};
  for (unsigned i = 0; i < count; ++i) {
    const iovec& datagram = messages[i].msg_hdr.msg_iov[0];
    lengths[i] = static_cast<std::uint32_t>(datagram.iov_len);
    parts[2 * i] = {.iov_base = &lengths[i], .iov_len = sizeof lengths[i]};
    parts[2 * i + 1] = datagram;
  }
  uabi::NetlinkAnswer answer{};
  const bool are_taken = ask_daemon(fd,
                                    {.kind = uabi::NetlinkFrameKind::SendMany,
                                     .value = 0,
                                     .port = port_of_one(messages[0].msg_hdr),
                                     .pid = 0},
                                    parts.data(), 2 * std::size_t{count}, answer);
  const unsigned taken = std::min<unsigned>(answer.taken, count);
  for (unsigned i = 0; i < taken; ++i) {
    messages[i].msg_len = lengths[i];
  }
  return are_taken || taken != 0 ? static_cast<int>(taken) : -1;
}

/// As sendmmsg(2). What goes to one program goes to the daemon in one frame, since each costs a
/// change of processes; all of it has arrived when the call returns.
[[nodiscard]] int send_many(int fd, mmsghdr* messages, unsigned count, int flags) {
  unsigned sent = 0;
  while (sent < count) {
    const unsigned run = (flags & MSG_OOB) == 0 ? together(messages + sent, count - sent) : 0;
    if (run > 1) {
      const int taken = send_together(fd, messages + sent, run);
      sent += static_cast<unsigned>(std::max(taken, 0));
      if (taken < static_cast<int>(run)) {
        break;
      }
      continue;
    }
    const ssize_t size = send_netlink(fd, messages[sent].msg_hdr, flags);
    if (size < 0) {
      break;
    }
    messages[sent++].msg_len = static_cast<unsigned>(size);
  }
  return sent == 0 && count != 0 ? -1 : static_cast<int>(sent);
}

/// As recvmmsg(2): the time is looked at after each datagram.
[[nodiscard]] int receive_many(int fd, mmsghdr* messages, unsigned count, int flags,
                               const timespec* timeout) {
  constexpr long kSecond_ns = 1'000'000'000;
  timespec deadline{};
  if (timeout != nullptr) {
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += timeout->tv_sec;
    deadline.tv_nsec += timeout->tv_nsec;
    if (deadline.tv_nsec >= kSecond_ns) {
      deadline.tv_nsec -= kSecond_ns;
      ++deadline.tv_sec;
    }
  }
  unsigned received = 0;
  while (received < count) {
    const ssize_t length = receive_netlink(fd, messages[received].msg_hdr, flags & ~MSG_WAITFORONE);
    if (length < 0) {
      break;
    }
    messages[received++].msg_len = static_cast<unsigned>(length);
    if ((flags & MSG_WAITFORONE) != 0) {
      flags |= MSG_DONTWAIT;
    }
    if (timeout != nullptr && is_past(deadline)) {
      break;
    }
  }
  return received == 0 && count != 0 ? -1 : static_cast<int>(received);
}

}  // namespace

ssize_t send_netlink(int fd, const msghdr& message, int flags) {
  if ((flags & MSG_OOB) != 0) {
    return failed(EOPNOTSUPP);
  }
  if (has_rights(message)) {
    return failed(EINVAL);
  }
  std::size_t size = 0;
  for (std::size_t i = 0; i < message.msg_iovlen; ++i) {
    size += message.msg_iov[i].iov_len;
  }
  if (size == 0 || size > uabi::kMaxNetlinkDatagram) {
    return failed(size == 0 ? ENODATA : EMSGSIZE);
  }
  uabi::NetlinkFrameHead head{.kind = uabi::NetlinkFrameKind::Send};
  if (message.msg_name != nullptr && message.msg_namelen != 0) {
    sockaddr_nl to{};
    if (message.msg_namelen < sizeof to) {
      return failed(EINVAL);
    }
    std::memcpy(&to, message.msg_name, sizeof to);
    if (to.nl_family != AF_NETLINK) {
      return failed(EINVAL);
    }
    head = {
        .kind = uabi::NetlinkFrameKind::SendTo, .value = to.nl_groups, .port = to.nl_pid, .pid = 0};
  }
  uabi::NetlinkAnswer answer{};
  return ask_daemon(fd, head, message.msg_iov, message.msg_iovlen, answer)
             ? static_cast<ssize_t>(size)
             : -1;
}

ssize_t receive_netlink(int fd, msghdr& message, int flags) {
  std::array<iovec, IOV_MAX> all;
  if ((flags & MSG_OOB) != 0 || message.msg_iovlen >= all.size()) {
    return failed((flags & MSG_OOB) != 0 ? EOPNOTSUPP : EMSGSIZE);
  }
  uabi::NetlinkFrameHead head{};
  all[0] = {.iov_base = &head, .iov_len = sizeof head};
  std::memcpy(all.data() + 1, message.msg_iov, message.msg_iovlen * sizeof(iovec));
  msghdr inner{};
  inner.msg_iov = all.data();
  inner.msg_iovlen = message.msg_iovlen + 1;
  inner.msg_control = message.msg_control;
  inner.msg_controllen = message.msg_controllen;
  const ssize_t count = real_recvmsg(fd, &inner, flags);
  if (count < 0) {
    return count;
  }
  if (static_cast<std::size_t>(count) < sizeof head) {
    return failed(ENETDOWN);  // the daemon has ended
  }
  if (head.kind == uabi::NetlinkFrameKind::Overrun) {
    if ((flags & MSG_PEEK) != 0) {
      static_cast<void>(real_recv(fd, &head, sizeof head, MSG_DONTWAIT));
    }
    return failed(ENOBUFS);
  }
  write_control(inner, message.msg_controllen, head);
  message.msg_controllen = inner.msg_controllen;
  message.msg_flags = inner.msg_flags;
  if (message.msg_name != nullptr) {
    write_address(message.msg_name, message.msg_namelen, head);
  }
  return count - static_cast<ssize_t>(sizeof head);
}

}  // namespace weft::compat

using namespace weft::compat;

extern "C" {

WEFT_EXPORT ssize_t send(int fd, const void* buffer, std::size_t size, int flags) {
  return is_netlink(fd) ? send_from(fd, buffer, size, flags, nullptr, 0)
                        : real_send(fd, buffer, size, flags);
}

WEFT_EXPORT ssize_t sendto(int fd, const void* buffer, std::size_t size, int flags,
                           const sockaddr* address, socklen_t length) {
  return is_netlink(fd) ? send_from(fd, buffer, size, flags, address, length)
                        : real_sendto(fd, buffer, size, flags, address, length);
}

WEFT_EXPORT ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  return is_netlink(fd) ? send_netlink(fd, *message, flags) : real_sendmsg(fd, message, flags);
}

WEFT_EXPORT int sendmmsg(int fd, mmsghdr* messages, unsigned count, int flags) {
  if (!is_netlink(fd)) {
    return real_sendmmsg(fd, messages, count, flags);
  }
  return send_many(fd, messages, count, flags);
}

WEFT_EXPORT ssize_t recv(int fd, void* buffer, std::size_t size, int flags) {
  return is_netlink(fd) ? receive_into(fd, buffer, size, flags, nullptr, nullptr)
                        : real_recv(fd, buffer, size, flags);
}

WEFT_EXPORT ssize_t recvfrom(int fd, void* buffer, std::size_t size, int flags, sockaddr* address,
                             socklen_t* length) {
  return is_netlink(fd) ? receive_into(fd, buffer, size, flags, address, length)
                        : real_recvfrom(fd, buffer, size, flags, address, length);
}

WEFT_EXPORT ssize_t recvmsg(int fd, msghdr* message, int flags) {
  return is_netlink(fd) ? receive_netlink(fd, *message, flags) : real_recvmsg(fd, message, flags);
}

WEFT_EXPORT int recvmmsg(int fd, mmsghdr* messages, unsigned count, int flags, timespec* timeout) {
  return is_netlink(fd) ? receive_many(fd, messages, count, flags, timeout)
                        : real_recvmmsg(fd, messages, count, flags, timeout);
}

WEFT_EXPORT ssize_t read(int fd, void* buffer, std::size_t size) {
  return is_netlink(fd) ? receive_into(fd, buffer, size, 0, nullptr, nullptr)
                        : real_read(fd, buffer, size);
}

WEFT_EXPORT ssize_t write(int fd, const void* buffer, std::size_t size) {
  return is_netlink(fd) ? send_from(fd, buffer, size, 0, nullptr, 0) : real_write(fd, buffer, size);
}

WEFT_EXPORT ssize_t readv(int fd, const iovec* parts, int count) {
  if (!is_netlink(fd)) {
    return real_readv(fd, parts, count);
  }
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts);
  message.msg_iovlen = static_cast<std::size_t>(std::max(count, 0));
  return receive_netlink(fd, message, 0);
}

WEFT_EXPORT ssize_t writev(int fd, const iovec* parts, int count) {
  if (!is_netlink(fd)) {
    return real_writev(fd, parts, count);
  }
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts);
  message.msg_iovlen = static_cast<std::size_t>(std::max(count, 0));
  return send_netlink(fd, message, 0);
}

// What programs call that were built with _FORTIFY_SOURCE: `room` is the buffer's. Where more is
// wanted than there is, the C library's own ends the program.

WEFT_EXPORT ssize_t __read_chk(int fd, void* buffer, std::size_t size, std::size_t room) {
  return size <= room && is_netlink(fd) ? receive_into(fd, buffer, size, 0, nullptr, nullptr)
                                        : real_read_chk(fd, buffer, size, room);
}

WEFT_EXPORT ssize_t __recv_chk(int fd, void* buffer, std::size_t size, std::size_t room,
                               int flags) {
  return size <= room && is_netlink(fd) ? receive_into(fd, buffer, size, flags, nullptr, nullptr)
                                        : real_recv_chk(fd, buffer, size, room, flags);
}

WEFT_EXPORT ssize_t __recvfrom_chk(int fd, void* buffer, std::size_t size, std::size_t room,
                                   int flags, sockaddr* address, socklen_t* length) {
  return size <= room && is_netlink(fd)
             ? receive_into(fd, buffer, size, flags, address, length)
             : real_recvfrom_chk(fd, buffer, size, room, flags, address, length);
}

}  // extern "C"
