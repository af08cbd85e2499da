#include "host/control_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "os/clock.h"

namespace weft::host {
namespace {

constexpr std::size_t kControlBytes = CMSG_SPACE(uabi::kMaxDescriptors * sizeof(int));

Result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return fail(ErrorCode::InvalidArgument,
                "socket path {} is longer than {} characters: choose a shorter WEFT_RUN", path,
                sizeof address.sun_path - 1);
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

[[nodiscard]] const sockaddr* generic(const sockaddr_un& address) {
  return static_cast<const sockaddr*>(static_cast<const void*>(&address));
}

std::vector<os::UniqueFd> take_descriptors(msghdr& header) {
  std::vector<os::UniqueFd> taken;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS) {
      const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (std::size_t i = 0; i < count; ++i) {
        int fd{};
        std::memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
        taken.emplace_back(fd);
      }
    }
  }
  return taken;
}

}  // namespace

Result<ControlSocket> ControlSocket::connect(const std::string& path) {
  const auto address = address_of(path);
  if (!address) {
    return std::unexpected(address.error());
  }
  os::UniqueFd fd{socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)};
  if (!fd) {
    return fail(ErrorCode::Io, "socket: {}", std::strerror(errno));
  }
  if (::connect(fd.get(), generic(*address), sizeof *address) != 0) {
    return fail(errno == ENOENT || errno == ECONNREFUSED ? ErrorCode::Refused : ErrorCode::Io,
                "no fabric daemon answers at {} ({}): start one with `weft up`", path,
                std::strerror(errno));
  }
  return ControlSocket{std::move(fd)};
}

Result<void> ControlSocket::send(const uabi::Message& message,
                                 std::span<const int> descriptors) const {
  const std::vector<std::byte> bytes = uabi::encode(message);
  iovec part{.iov_base = const_cast<std::byte*>(bytes.data()), .iov_len = bytes.size()};
  alignas(cmsghdr) std::array<std::byte, kControlBytes> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!descriptors.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size_bytes());
  }
  while (sendmsg(fd_.get(), &header, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
    if (errno == EINTR) {
      continue;
    }
    const bool full = errno == EAGAIN || errno == EWOULDBLOCK;
    return fail(full ? ErrorCode::TryAgain : ErrorCode::Refused, "control message not sent: {}",
                std::strerror(errno));
  }
  return {};
}

Result<Received> ControlSocket::receive() const {
  const auto bytes = std::make_unique_for_overwrite<std::byte[]>(uabi::kMaxMessageBytes);
  iovec part{.iov_base = bytes.get(), .iov_len = uabi::kMaxMessageBytes};
  alignas(cmsghdr) std::array<std::byte, kControlBytes> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  ssize_t count = -1;
  while ((count = recvmsg(fd_.get(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC)) < 0) {
    if (errno == EINTR) {
      continue;
    }
    const bool none = errno == EAGAIN || errno == EWOULDBLOCK;
    return fail(none ? ErrorCode::TryAgain : ErrorCode::Refused, "control connection: {}",
                std::strerror(errno));
  }
  if (count == 0) {
    return fail(ErrorCode::Refused, "the other end closed the control connection");
  }
  Received received{.message = {}, .descriptors = take_descriptors(header)};
  if ((header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    return fail(ErrorCode::Io, "an oversized control message was refused");
  }
  auto message = uabi::decode({bytes.get(), static_cast<std::size_t>(count)});
  if (!message) {
    return std::unexpected(message.error());
  }
  if (received.descriptors.size() != uabi::descriptors_of(*message)) {
    return fail(ErrorCode::Io, "a control message came with {} descriptors instead of {}",
                received.descriptors.size(), uabi::descriptors_of(*message));
  }
  received.message = std::move(*message);
  return received;
}

Result<Received> ControlSocket::receive(Duration longest) const {
  const Instant deadline = os::now() + longest;
  while (true) {
    auto received = receive();
    if (received || received.error().code != ErrorCode::TryAgain) {
      return received;
    }
    const Duration left = deadline - os::now();
    if (left <= Duration{}) {
      return fail(ErrorCode::TimedOut, "the fabric daemon did not answer within {} ms",
                  longest.milliseconds());
    }
    pollfd wait{.fd = fd_.get(), .events = POLLIN, .revents = 0};
    poll(&wait, 1, static_cast<int>(left.milliseconds()) + 1);
  }
}

Result<os::UniqueFd> listen_at(const std::string& path) {
  const auto address = address_of(path);
  if (!address) {
    return std::unexpected(address.error());
  }
  os::UniqueFd fd{socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  constexpr int kBacklog = 512;  // policy: a parallel job's processes come at once
  if (!fd || bind(fd.get(), generic(*address), sizeof *address) != 0 ||
      listen(fd.get(), kBacklog) != 0) {
    return fail(ErrorCode::Io, "control socket {}: {}", path, std::strerror(errno));
  }
  return fd;
}

}  // namespace weft::host
