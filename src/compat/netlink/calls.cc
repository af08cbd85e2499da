// Calls that make, name, change and close descriptors.

#include <fcntl.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstring>

#include "compat/netlink/netlink_socket.h"
#include "compat/netlink/real.h"

#define WEFT_EXPORT [[gnu::visibility("default")]]

namespace weft::compat {
namespace {

using uabi::NetlinkAnswer;
using uabi::NetlinkFrameKind;

constinit const Real<int(int, int, int)> real_socket{"socket"};
constinit const Real<int(int, const sockaddr*, socklen_t)> real_bind{"bind"};
constinit const Real<int(int, const sockaddr*, socklen_t)> real_connect{"connect"};
constinit const Real<int(int, sockaddr*, socklen_t*)> real_getsockname{"getsockname"};
constinit const Real<int(int, sockaddr*, socklen_t*)> real_getpeername{"getpeername"};
constinit const Real<int(int, int, int, void*, socklen_t*)> real_getsockopt{"getsockopt"};
constinit const Real<int(int, int, int, const void*, socklen_t)> real_setsockopt{"setsockopt"};
constinit const Real<int(int, int)> real_shutdown{"shutdown"};
constinit const Real<int(int, int)> real_listen{"listen"};
constinit const Real<int(int)> real_close{"close"};
constinit const Real<int(int)> real_dup{"dup"};
constinit const Real<int(int, int)> real_dup2{"dup2"};
constinit const Real<int(int, int, int)> real_dup3{"dup3"};
constinit const Real<int(int, int, void*)> real_fcntl{"fcntl"};
constinit const Real<int(int, int, void*)> real_fcntl64{"fcntl64"};

[[nodiscard]] int failed(int error) {
  errno = error;
  return -1;
}

[[nodiscard]] int ask(int fd, const uabi::NetlinkFrameHead& head, NetlinkAnswer& answer) {
  return ask_daemon(fd, head, nullptr, 0, answer) ? 0 : -1;
}
[[nodiscard]] int ask(int fd, const uabi::NetlinkFrameHead& head) {
  NetlinkAnswer answer{};
  return ask(fd, head, answer);
}

/// The program's address, if it is one of netlink; else errno says why not.
[[nodiscard]] bool take_address(const sockaddr* address, socklen_t length, sockaddr_nl& taken) {
  if (address == nullptr || length < sizeof taken) {
    errno = EINVAL;
    return false;
  }
  std::memcpy(&taken, address, sizeof taken);
  if (taken.nl_family != AF_NETLINK) {
    errno = EINVAL;
    return false;
  }
  return true;
}

[[nodiscard]] int bind_netlink(int fd, const sockaddr* address, socklen_t length) {
  sockaddr_nl wanted{};
  return take_address(address, length, wanted) ? ask(fd, {.kind = NetlinkFrameKind::Bind,
                                                          .value = wanted.nl_groups,
                                                          .port = wanted.nl_pid,
                                                          .pid = 0})
                                               : -1;
}

[[nodiscard]] int connect_netlink(int fd, const sockaddr* address, socklen_t length) {
  if (address != nullptr && length >= sizeof address->sa_family &&
      address->sa_family == AF_UNSPEC) {
    return ask(fd, {.kind = NetlinkFrameKind::Disconnect});
  }
  sockaddr_nl peer{};
  return take_address(address, length, peer) ? ask(fd, {.kind = NetlinkFrameKind::Connect,
                                                        .value = peer.nl_groups,
                                                        .port = peer.nl_pid,
                                                        .pid = 0})
                                             : -1;
}

/// The socket's own address, or its peer's.
[[nodiscard]] int name_netlink(int fd, sockaddr* address, socklen_t* length, bool is_peer) {
  NetlinkAnswer answer{};
  if (ask(fd, {.kind = NetlinkFrameKind::Describe}, answer) != 0) {
    return -1;
  }
  sockaddr_nl name{};
  name.nl_family = AF_NETLINK;
  name.nl_pid = is_peer ? answer.peer_port : answer.port;
  name.nl_groups = is_peer ? answer.peer_groups : answer.groups;
  std::memcpy(address, &name, std::min<std::size_t>(*length, sizeof name));
  *length = sizeof name;
  return 0;
}

[[nodiscard]] int set_netlink_option(int fd, int option, const void* value, socklen_t length) {
  std::uint32_t number{};
  if (length < sizeof number) {
    return failed(EINVAL);
  }
  std::memcpy(&number, value, sizeof number);
  switch (option) {
    case NETLINK_ADD_MEMBERSHIP:
      return ask(fd, {.kind = NetlinkFrameKind::Join, .value = number});
    case NETLINK_DROP_MEMBERSHIP:
      return ask(fd, {.kind = NetlinkFrameKind::Leave, .value = number});
    default:
      return ask(fd, {.kind = NetlinkFrameKind::SetOption,
                      .value = number,
                      .port = static_cast<std::uint32_t>(option)});
  }
}

[[nodiscard]] int set_socket_option(int fd, int option, const void* value, socklen_t length) {
  switch (option) {
    case SO_ATTACH_FILTER:
    case SO_ATTACH_BPF:
      return failed(ENOPROTOOPT);  // it would see our frames
    case SO_RCVBUF:
    case SO_RCVBUFFORCE:
      break;
    default:
      return real_setsockopt(fd, SOL_SOCKET, option, value, length);
  }
  // The kernel says how much it comes to; the daemon keeps that much for the reader.
  if (real_setsockopt(fd, SOL_SOCKET, SO_RCVBUF, value, length) != 0) {
    return -1;
  }
  int room{};
  socklen_t size = sizeof room;
  if (real_getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, &size) != 0) {
    return -1;
  }
  return ask(fd, {.kind = NetlinkFrameKind::SetRoom, .value = static_cast<std::uint32_t>(room)});
}

[[nodiscard]] int put_number(std::uint32_t number, void* value, socklen_t* length) {
  if (*length < sizeof number) {
    return failed(EINVAL);
  }
  std::memcpy(value, &number, sizeof number);
  *length = sizeof number;
  return 0;
}

[[nodiscard]] int get_netlink_option(int fd, int option, void* value, socklen_t* length) {
  NetlinkAnswer answer{};
  if (ask(fd, {.kind = NetlinkFrameKind::Describe}, answer) != 0) {
    return -1;
  }
  switch (option) {
    case NETLINK_LIST_MEMBERSHIPS: {
      // As many octets as there is room for; the length is that of them all.
      std::memcpy(value, &answer.groups, std::min<std::size_t>(*length, sizeof answer.groups));
      *length = sizeof answer.groups;
      return 0;
    }
    case NETLINK_PKTINFO:
    case NETLINK_BROADCAST_ERROR:
    case NETLINK_NO_ENOBUFS:
    case NETLINK_CAP_ACK:
    case NETLINK_EXT_ACK:
    case NETLINK_GET_STRICT_CHK:
      return put_number(answer.options >> option & 1, value, length);
    default:
      return failed(ENOPROTOOPT);
  }
}

[[nodiscard]] int get_socket_option(int fd, int option, void* value, socklen_t* length) {
  switch (option) {
    case SO_DOMAIN:
      return put_number(AF_NETLINK, value, length);
    case SO_PROTOCOL:
      return put_number(NETLINK_RDMA, value, length);
    case SO_TYPE: {
      NetlinkAnswer answer{};
      return ask(fd, {.kind = NetlinkFrameKind::Describe}, answer) == 0
                 ? put_number(answer.type, value, length)
                 : -1;
    }
    default:
      return real_getsockopt(fd, SOL_SOCKET, option, value, length);
  }
}

/// A descriptor that was made as a copy of another, or in its place.
[[nodiscard]] int note_copy(bool is_ours, int copy) {
  if (copy >= kMaxDescriptors && is_ours) {
    real_close(copy);
    return failed(EMFILE);
  }
  if (copy >= 0) {
    if (is_ours) {
      note_netlink(copy);
    } else {
      forget_netlink(copy);
    }
  }
  return copy;
}

[[nodiscard]] int control(const Real<int(int, int, void*)>& real, int fd, int command,
                          void* argument) {
  const bool copies = command == F_DUPFD || command == F_DUPFD_CLOEXEC;
  if (!copies || !is_netlink(fd)) {
    return real(fd, command, argument);
  }
  return note_copy(true, real(fd, command, argument));
}

}  // namespace
}  // namespace weft::compat

using namespace weft::compat;

extern "C" {

WEFT_EXPORT int socket(int domain, int type, int protocol) noexcept {
  return domain == AF_NETLINK && protocol == NETLINK_RDMA && is_on_host()
             ? open_netlink(type)
             : real_socket(domain, type, protocol);
}

WEFT_EXPORT int bind(int fd, const sockaddr* address, socklen_t length) noexcept {
  return is_netlink(fd) ? bind_netlink(fd, address, length) : real_bind(fd, address, length);
}

WEFT_EXPORT int connect(int fd, const sockaddr* address, socklen_t length) {
  return is_netlink(fd) ? connect_netlink(fd, address, length) : real_connect(fd, address, length);
}

WEFT_EXPORT int getsockname(int fd, sockaddr* address, socklen_t* length) noexcept {
  return is_netlink(fd) ? name_netlink(fd, address, length, false)
                        : real_getsockname(fd, address, length);
}

WEFT_EXPORT int getpeername(int fd, sockaddr* address, socklen_t* length) noexcept {
  return is_netlink(fd) ? name_netlink(fd, address, length, true)
                        : real_getpeername(fd, address, length);
}

WEFT_EXPORT int getsockopt(int fd, int level, int option, void* value, socklen_t* length) noexcept {
  if (!is_suspect(fd) || (level != SOL_SOCKET && level != SOL_NETLINK) || !is_netlink(fd)) {
    return real_getsockopt(fd, level, option, value, length);
  }
  return level == SOL_NETLINK ? get_netlink_option(fd, option, value, length)
                              : get_socket_option(fd, option, value, length);
}

WEFT_EXPORT int setsockopt(int fd, int level, int option, const void* value,
                           socklen_t length) noexcept {
  if (!is_suspect(fd) || (level != SOL_SOCKET && level != SOL_NETLINK) || !is_netlink(fd)) {
    return real_setsockopt(fd, level, option, value, length);
  }
  return level == SOL_NETLINK ? set_netlink_option(fd, option, value, length)
                              : set_socket_option(fd, option, value, length);
}

WEFT_EXPORT int shutdown(int fd, int how) noexcept {
  return is_netlink(fd) ? failed(EOPNOTSUPP) : real_shutdown(fd, how);
}

WEFT_EXPORT int listen(int fd, int backlog) noexcept {
  return is_netlink(fd) ? failed(EOPNOTSUPP) : real_listen(fd, backlog);
}

WEFT_EXPORT int close(int fd) {
  if (is_suspect(fd)) {
    forget_netlink(fd);
  }
  return real_close(fd);
}

WEFT_EXPORT int dup(int fd) noexcept {
  return is_suspect(fd) ? note_copy(is_netlink(fd), real_dup(fd)) : real_dup(fd);
}

WEFT_EXPORT int dup2(int from, int to) noexcept {
  return is_suspect(from) || is_suspect(to) ? note_copy(is_netlink(from), real_dup2(from, to))
                                            : real_dup2(from, to);
}

WEFT_EXPORT int dup3(int from, int to, int flags) noexcept {
  return is_suspect(from) || is_suspect(to)
             ? note_copy(is_netlink(from), real_dup3(from, to, flags))
             : real_dup3(from, to, flags);
}

WEFT_EXPORT int fcntl(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* const argument = va_arg(arguments, void*);  // or an int, in the same register
  va_end(arguments);
  return control(real_fcntl, fd, command, argument);
}

WEFT_EXPORT int fcntl64(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  return control(real_fcntl64, fd, command, argument);
}

}  // extern "C"
