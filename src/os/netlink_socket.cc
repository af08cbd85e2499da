#include "os/netlink_socket.h"

#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
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

NetlinkSocket::NetlinkSocket(UniqueFd fd)
    : fd_(std::move(fd)), buffer_(std::make_unique_for_overwrite<std::byte[]>(kMostOctets)) {}

void NetlinkSocket::set_room(std::uint32_t octets) {
  setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUF, &octets, sizeof octets);
}

namespace {

[[nodiscard]] std::unexpected<Error> not_sent(std::uint32_t port) {
  const bool is_refused = errno == ECONNREFUSED || errno == ESRCH;
  return fail(is_refused ? ErrorCode::Refused : ErrorCode::Io, "netlink to {}: {}", port,
              std::strerror(errno));
}

[[nodiscard]] sockaddr_nl address_of(std::uint32_t port, std::uint32_t group) {
  sockaddr_nl to{};
  to.nl_family = AF_NETLINK;
  to.nl_pid = port;
  to.nl_groups = group == 0 ? 0 : 1U << (group - 1);
  return to;
}

}  // namespace

Result<void> NetlinkSocket::send(std::uint32_t port, std::uint32_t group, ByteSpan datagram) {
  const sockaddr_nl to = address_of(port, group);
  const ssize_t sent = ::sendto(fd_.get(), datagram.data(), datagram.size(), 0,
                                std::bit_cast<const sockaddr*>(&to), sizeof to);
  return sent < 0 ? not_sent(port) : Result<void>{};
}

Result<void> NetlinkSocket::send_many(std::uint32_t port,
                                      std::span<const std::vector<std::byte>> datagrams) {
  sockaddr_nl to = address_of(port, 0);
  while (!datagrams.empty()) {
    std::array<iovec, kTogether> parts;
    std::array<mmsghdr, kTogether> messages{};
    const std::size_t count = std::min(kTogether, datagrams.size());
    for (std::size_t i = 0; i < count; ++i) {
      parts[i] = {.iov_base = const_cast<std::byte*>(datagrams[i].data()),
                  .iov_len = datagrams[i].size()};
      messages[i].msg_hdr.msg_name = &to;
      messages[i].msg_hdr.msg_namelen = sizeof to;
      messages[i].msg_hdr.msg_iov = &parts[i];
      messages[i].msg_hdr.msg_iovlen = 1;
    }
    const int sent = ::sendmmsg(fd_.get(), messages.data(), static_cast<unsigned>(count), 0);
    if (sent < 0 && errno == EINTR) {
      continue;
    }
    if (sent < 0) {
      return not_sent(port);
    }
    datagrams = datagrams.subspan(static_cast<std::size_t>(sent));  // why no more, the next says
  }
  return {};
}

Result<std::span<const NetlinkSocket::Received>> NetlinkSocket::receive_many() {
  if (!has_room_for_many_) {
    buffer_ = std::make_unique_for_overwrite<std::byte[]>(kTogether * kMostOctets);
    has_room_for_many_ = true;
  }
  std::array<sockaddr_nl, kTogether> from;
  std::array<iovec, kTogether> parts;
  std::array<mmsghdr, kTogether> messages{};
  for (std::size_t i = 0; i < kTogether; ++i) {
    parts[i] = {.iov_base = buffer_.get() + i * kMostOctets, .iov_len = kMostOctets};
    messages[i].msg_hdr.msg_name = &from[i];
    messages[i].msg_hdr.msg_namelen = sizeof from[i];
    messages[i].msg_hdr.msg_iov = &parts[i];
    messages[i].msg_hdr.msg_iovlen = 1;
  }
  received_.clear();
  const int count = ::recvmmsg(fd_.get(), messages.data(), kTogether, MSG_DONTWAIT, nullptr);
  if (count < 0 && errno == ENOBUFS) {
    received_.push_back({.is_overrun = true});
  } else if (count < 0 && errno != EAGAIN && errno != EINTR) {
    return fail(ErrorCode::Io, "netlink: {}", std::strerror(errno));
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(std::max(count, 0)); ++i) {
    received_.push_back({
        .port = from[i].nl_pid,
        .bytes = ByteSpan{buffer_.get() + i * kMostOctets, messages[i].msg_len}
    });
  }
  return std::span<const Received>{received_};
}

Result<std::optional<NetlinkSocket::Received>> NetlinkSocket::receive() {
  sockaddr_nl from{};
  socklen_t size = sizeof from;
  const ssize_t length = ::recvfrom(fd_.get(), buffer_.get(), kMostOctets, MSG_DONTWAIT,
                                    std::bit_cast<sockaddr*>(&from), &size);
  if (length >= 0) {
    return Received{
        .port = from.nl_pid, .bytes = ByteSpan{buffer_.get(), static_cast<std::size_t>(length)}
    };
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
