#include "daemon/ibsim/socket.h"

#include <netinet/in.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace weft::daemon {
namespace {

template <class Name>
struct Address {
  Name name{};
  socklen_t size{sizeof(Name)};
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&name); }
};

[[nodiscard]] Address<sockaddr_in> loopback(std::uint16_t port) {
  Address<sockaddr_in> address;
  address.name.sin_family = AF_INET;
  address.name.sin_port = htons(port);
  address.name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

[[nodiscard]] Result<Address<sockaddr_un>> address_of(std::string_view name) {
  Address<sockaddr_un> address;
  constexpr std::size_t kNuls = 2;  // a leading and a trailing one
  if (name.size() + kNuls > sizeof address.name.sun_path) {
    return fail(ErrorCode::InvalidArgument, "{} is too long for the name of a socket", name);
  }
  address.name.sun_family = AF_UNIX;
  std::ranges::copy(name, address.name.sun_path + 1);
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size() + kNuls);
  return address;
}

}  // namespace

Result<os::UniqueFd> bind_ibsim(std::string_view name) {
  const auto address = address_of(name);
  if (!address) {
    return std::unexpected(address.error());
  }
  os::UniqueFd socket{::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  const int on = 1;
  if (!socket || setsockopt(socket.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0) {
    return fail(ErrorCode::Io, "socket: {}", std::strerror(errno));
  }
  if (bind(socket.get(), address->get(), address->size) != 0) {
    return fail(errno == EADDRINUSE ? ErrorCode::Exists : ErrorCode::Io, "bind @{}: {}", name,
                std::strerror(errno));
  }
  return socket;
}

Result<os::UniqueFd> bind_ibsim_port(std::uint16_t port) {
  os::UniqueFd socket{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (!socket) {
    return fail(ErrorCode::Io, "socket: {}", std::strerror(errno));
  }
  const auto address = loopback(port);
  if (bind(socket.get(), address.get(), address.size) != 0) {
    return fail(errno == EADDRINUSE ? ErrorCode::Exists : ErrorCode::Io, "bind UDP port {}: {}",
                port, std::strerror(errno));
  }
  return socket;
}

Result<void> connect_ibsim_port(const os::UniqueFd& socket, std::uint16_t port) {
  const auto address = loopback(port);
  if (connect(socket.get(), address.get(), address.size) != 0) {
    return fail(ErrorCode::NotFound, "connect to UDP port {}: {}", port, std::strerror(errno));
  }
  return {};
}

std::optional<std::uint16_t> IbsimDatagram::udp_port() const {
  sockaddr_in address{};
  if (from.ss_family != AF_INET || from_size < sizeof address) {
    return std::nullopt;
  }
  std::memcpy(&address, &from, sizeof address);
  return ntohs(address.sin_port);
}

Result<void> connect_ibsim(const os::UniqueFd& socket, std::string_view name) {
  const auto address = address_of(name);
  if (!address) {
    return std::unexpected(address.error());
  }
  if (connect(socket.get(), address->get(), address->size) != 0) {
    return fail(ErrorCode::NotFound, "connect to @{}: {}", name, std::strerror(errno));
  }
  return {};
}

bool receive_ibsim(int socket, IbsimDatagram& datagram) {
  iovec into{.iov_base = datagram.buffer.data(), .iov_len = datagram.buffer.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred))> control{};
  msghdr message{};
  message.msg_name = &datagram.from;
  message.msg_namelen = sizeof datagram.from;
  message.msg_iov = &into;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t count = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (count < 0) {
    return false;
  }
  datagram.size = static_cast<std::size_t>(count);
  datagram.from_size = message.msg_namelen;
  datagram.sender = {.pid = 0, .uid = static_cast<uid_t>(-1), .gid = static_cast<gid_t>(-1)};
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_CREDENTIALS) {
      std::memcpy(&datagram.sender, CMSG_DATA(part), sizeof datagram.sender);
    }
  }
  return true;
}

void answer_ibsim(int socket, const IbsimDatagram& asked, ByteSpan bytes) {
  static_cast<void>(!sendto(socket, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
                            reinterpret_cast<const sockaddr*>(&asked.from), asked.from_size));
}

}  // namespace weft::daemon
