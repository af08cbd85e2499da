#include "os/netlink_socket.h"

#include <linux/netlink.h>
#include <sys/socket.h>

#include <bit>
#include <cerrno>
#include <cstring>

namespace weft::os {

Result<NetlinkSocket> NetlinkSocket::open(int protocol, std::span<const std::uint32_t> groups) {
  UniqueFd fd{socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol)};
  if (!fd) {
    return fail(errno == EPROTONOSUPPORT ? ErrorCode::NotSupported : ErrorCode::Io,
                "a netlink socket of protocol {}: {}", protocol, std::strerror(errno));
  }
  sockaddr_nl own{};
  own.nl_family = AF_NETLINK;
  for (const std::uint32_t group : groups) {
    own.nl_groups |= 1U << (group - 1);
  }
  socklen_t size = sizeof own;
  auto* const address = std::bit_cast<sockaddr*>(&own);
  if (bind(fd.get(), address, size) != 0 || getsockname(fd.get(), address, &size) != 0) {
    return fail(ErrorCode::Io, "a netlink socket's address: {}", std::strerror(errno));
  }
  NetlinkSocket made{std::move(fd)};
  made.port_ = own.nl_pid;
  return made;
}

void NetlinkSocket::set_room(std::uint32_t octets) {
  setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUF, &octets, sizeof octets);
}

Result<void> NetlinkSocket::send(std::uint32_t port, std::uint32_t group, ByteSpan datagram) {
  sockaddr_nl to{};
  to.nl_family = AF_NETLINK;
  to.nl_pid = port;
  to.nl_groups = group == 0 ? 0 : 1U << (group - 1);
  const ssize_t sent = ::sendto(fd_.get(), datagram.data(), datagram.size(), 0,
                                std::bit_cast<const sockaddr*>(&to), sizeof to);
  if (sent < 0) {
    const bool is_refused = errno == ECONNREFUSED || errno == ESRCH;
    return fail(is_refused ? ErrorCode::Refused : ErrorCode::Io, "netlink to {}: {}", port,
                std::strerror(errno));
  }
  return {};
}

Result<std::optional<NetlinkSocket::Received>> NetlinkSocket::receive() {
  sockaddr_nl from{};
  socklen_t size = sizeof from;
  const ssize_t length = ::recvfrom(fd_.get(), buffer_.data(), buffer_.size(), MSG_DONTWAIT,
                                    std::bit_cast<sockaddr*>(&from), &size);
  if (length >= 0) {
    return Received{.port = from.nl_pid,
                    .bytes = ByteSpan{buffer_}.first(static_cast<std::size_t>(length))};
  }
  if (errno == EAGAIN || errno == EINTR) {
    return std::nullopt;
  }
  if (errno == ENOBUFS) {
    return Received{.is_overrun = true};
  }
  return fail(ErrorCode::Io, "netlink: {}", std::strerror(errno));
}

}  // namespace weft::os
