// rsocket(7): the socket calls over RDMA.

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/select.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "compat/rdmacm/refusals.h"
#include "compat/rdmacm/rsockets/datagram.h"
#include "compat/rdmacm/rsockets/event_set.h"
#include "compat/rdmacm/rsockets/sockets.h"
#include "compat/rdmacm/rsockets/stream.h"

namespace weft::rsockets {
namespace {

std::mutex sockets_lock;
auto& sockets = *new std::map<int, std::shared_ptr<Socket>>;  // never destroyed: programs exit with
                                                              // open sockets

/// The same; null after refuse().
[[nodiscard]] std::shared_ptr<Socket> socket_of(int number) {
  auto socket = find_socket(number);
  if (socket == nullptr) {
    compat::refuse(EBADF, "this number is no rsocket's");
  }
  return socket;
}

[[nodiscard]] int add(std::shared_ptr<Socket> socket) {
  const std::lock_guard guard{sockets_lock};
  const int number = socket->fd();
  sockets[number] = std::move(socket);
  return number;
}

[[nodiscard]] const std::byte* octets(const void* data) {
  return static_cast<const std::byte*>(data);
}

[[nodiscard]] ssize_t send_pieces(int number, std::span<const iovec> pieces, int flags,
                                  const sockaddr* to) {
  const auto socket = socket_of(number);
  return socket == nullptr ? -1 : socket->send_pieces(pieces, flags, to);
}

[[nodiscard]] ssize_t receive_pieces(int number, std::span<const iovec> pieces, int flags,
                                     Sender sender) {
  const auto socket = socket_of(number);
  return socket == nullptr ? -1 : socket->receive_pieces(pieces, flags, sender);
}

[[nodiscard]] std::span<const iovec> as_span(const iovec* pieces, int count) {
  return {pieces, static_cast<std::size_t>(std::max(count, 0))};
}

/// Null after refuse().
[[nodiscard]] std::shared_ptr<Socket> make_stream(int domain) {
  rdma_cm_id* cm = nullptr;
  if (rdma_create_id(nullptr, &cm, nullptr, RDMA_PS_TCP) != 0) {
    return nullptr;
  }
  cm->route.addr.src_addr.sa_family = static_cast<sa_family_t>(domain);
  return std::make_shared<Stream>(cm, SocketOptions{});
}

[[nodiscard]] std::shared_ptr<Socket> make_datagram_socket(int domain) {
  if (domain != AF_INET && domain != AF_INET6) {
    compat::refuse(EAFNOSUPPORT, "datagram rsockets are of AF_INET or AF_INET6");
    return nullptr;
  }
  os::UniqueFd udp{socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  return udp.get() < 0 ? nullptr : std::make_shared<DatagramSocket>(std::move(udp), domain);
}

}  // namespace

std::shared_ptr<Socket> find_socket(int number) {
  const std::lock_guard guard{sockets_lock};
  const auto found = sockets.find(number);
  return found == sockets.end() ? nullptr : found->second;
}

}  // namespace weft::rsockets

using namespace weft;
using namespace weft::rsockets;

extern "C" {

WEFT_EXPORT int rsocket(int domain, int type, int protocol) {
  if (domain != AF_INET && domain != AF_INET6 && domain != AF_IB) {
    return compat::refuse(ENOTSUP, "rsockets are of AF_INET, AF_INET6 or AF_IB");
  }
  const int kind = type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC);
  const int own_protocol = kind == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP;
  if ((kind != SOCK_STREAM && kind != SOCK_DGRAM) || (protocol != 0 && protocol != own_protocol)) {
    return compat::refuse(ENOTSUP, "rsockets are SOCK_STREAM (TCP) or SOCK_DGRAM (UDP)");
  }
  auto made = kind == SOCK_STREAM ? make_stream(domain) : make_datagram_socket(domain);
  if (made == nullptr || ((type & SOCK_NONBLOCK) != 0 && made->set_nonblocking(true) != 0)) {
    return -1;
  }
  return add(std::move(made));
}

WEFT_EXPORT int rbind(int number, const sockaddr* address, socklen_t) {
  const auto socket = socket_of(number);
  return socket == nullptr ? -1 : socket->bind(address);
}

WEFT_EXPORT int rlisten(int number, int backlog) {
  const auto socket = socket_of(number);
  return socket == nullptr ? -1 : socket->listen(backlog);
}

WEFT_EXPORT int raccept(int number, sockaddr* address, socklen_t* bytes) {
  const auto listener = socket_of(number);
  if (listener == nullptr) {
    return -1;
  }
  auto accepted = listener->accept();
  if (accepted == nullptr) {
    return -1;
  }
  copy_address(accepted->peer_address(), address, bytes);
  return add(std::move(accepted));
}

WEFT_EXPORT int rconnect(int number, const sockaddr* address, socklen_t) {
  const auto socket = socket_of(number);
  return socket == nullptr ? -1 : socket->connect(address);
}

WEFT_EXPORT int rshutdown(int number, int how) {
  const auto socket = socket_of(number);
  return socket == nullptr ? -1 : socket->shutdown(how);
}

WEFT_EXPORT int rclose(int number) {
  if (close_set(number)) {
    return 0;
  }
  const auto socket = socket_of(number);
  if (socket == nullptr) {
    return -1;
  }
  forget_in_sets(number);
  socket->close();
  const std::lock_guard guard{sockets_lock};
  sockets.erase(number);
  return 0;
}

WEFT_EXPORT ssize_t rrecvfrom(int number, void* out, size_t bytes, int flags, sockaddr* address,
                              socklen_t* address_bytes) {
  const auto socket = socket_of(number);
  return socket == nullptr ? -1
                           : socket->receive(static_cast<std::byte*>(out), bytes, flags,
                                             {.address = address, .bytes = address_bytes});
}

WEFT_EXPORT ssize_t rrecv(int number, void* out, size_t bytes, int flags) {
  return rrecvfrom(number, out, bytes, flags, nullptr, nullptr);
}

WEFT_EXPORT ssize_t rrecvmsg(int number, msghdr* message, int flags) {
  if (message->msg_control != nullptr && message->msg_controllen != 0) {
    return compat::refuse(ENOTSUP, "rsockets carry no control messages");
  }
  return receive_pieces(
      number, {message->msg_iov, message->msg_iovlen}, flags,
      {.address = static_cast<sockaddr*>(message->msg_name), .bytes = &message->msg_namelen});
}

WEFT_EXPORT ssize_t rsendto(int number, const void* data, size_t bytes, int flags,
                            const sockaddr* address, socklen_t) {
  const auto socket = socket_of(number);
  return socket == nullptr ? -1 : socket->send(octets(data), bytes, flags, address);
}

WEFT_EXPORT ssize_t rsend(int number, const void* data, size_t bytes, int flags) {
  return rsendto(number, data, bytes, flags, nullptr, 0);
}

WEFT_EXPORT ssize_t rsendmsg(int number, const msghdr* message, int flags) {
  if (message->msg_control != nullptr && message->msg_controllen != 0) {
    return compat::refuse(ENOTSUP, "rsockets carry no control messages");
  }
  return send_pieces(number, {message->msg_iov, message->msg_iovlen}, flags,
                     static_cast<const sockaddr*>(message->msg_name));
}

WEFT_EXPORT ssize_t rread(int number, void* out, size_t bytes) {
  return rrecv(number, out, bytes, 0);
}

WEFT_EXPORT ssize_t rreadv(int number, const iovec* pieces, int count) {
  return receive_pieces(number, as_span(pieces, count), 0, {});
}

WEFT_EXPORT ssize_t rwrite(int number, const void* data, size_t bytes) {
  return rsend(number, data, bytes, 0);
}

WEFT_EXPORT ssize_t rwritev(int number, const iovec* pieces, int count) {
  return send_pieces(number, as_span(pieces, count), 0, nullptr);
}

WEFT_EXPORT int rpoll(pollfd* wanted, nfds_t count, int timeout) {
  return poll_all(wanted, count, timeout);
}

WEFT_EXPORT int rselect(int count, fd_set* readable, fd_set* writable, fd_set* exceptional,
                        timeval* timeout) {
  std::vector<pollfd> wanted;
  const auto is_set = [](int fd, const fd_set* set) { return set != nullptr && FD_ISSET(fd, set); };
  for (int fd = 0; fd < count; ++fd) {
    const int events = (is_set(fd, readable) ? POLLIN : 0) | (is_set(fd, writable) ? POLLOUT : 0) |
                       (is_set(fd, exceptional) ? POLLPRI : 0);
    if (events != 0) {
      wanted.push_back({.fd = fd, .events = static_cast<short>(events), .revents = 0});
    }
  }
  const int wait_ms =
      timeout == nullptr
          ? -1
          : static_cast<int>(timeout->tv_sec * 1'000 + (timeout->tv_usec + 999) / 1'000);
  if (poll_all(wanted.data(), wanted.size(), wait_ms) < 0) {
    return -1;
  }
  for (fd_set* const set : {readable, writable, exceptional}) {
    if (set != nullptr) {
      FD_ZERO(set);
    }
  }
  int ready = 0;
  const auto mark = [&](const pollfd& each, int wish, int signs, fd_set* set) {
    if (set != nullptr && (each.events & wish) != 0 && (each.revents & signs) != 0) {
      FD_SET(each.fd, set);
      ++ready;
    }
  };
  for (const pollfd& each : wanted) {
    mark(each, POLLIN, POLLIN | POLLHUP | POLLERR, readable);
    mark(each, POLLOUT, POLLOUT | POLLERR, writable);
    mark(each, POLLPRI, POLLPRI, exceptional);
  }
  return ready;
}

WEFT_EXPORT int rgetpeername(int number, sockaddr* address, socklen_t* bytes) {
  const auto socket = socket_of(number);
  return socket == nullptr ? -1 : copy_address(socket->peer_address(), address, bytes);
}

WEFT_EXPORT int rgetsockname(int number, sockaddr* address, socklen_t* bytes) {
  const auto socket = socket_of(number);
  return socket == nullptr ? -1 : copy_address(socket->own_address(), address, bytes);
}

WEFT_EXPORT int rsetsockopt(int number, int level, int name, const void* value, socklen_t bytes) {
  const auto socket = socket_of(number);
  return socket == nullptr ? -1 : set_option(*socket, level, name, value, bytes);
}

WEFT_EXPORT int rgetsockopt(int number, int level, int name, void* value, socklen_t* bytes) {
  const auto socket = socket_of(number);
  return socket == nullptr ? -1 : get_option(*socket, level, name, value, bytes);
}

WEFT_EXPORT int rfcntl(int number, int command, ...) {
  const auto socket = socket_of(number);
  if (socket == nullptr) {
    return -1;
  }
  std::va_list arguments;
  va_start(arguments, command);
  const int flags = command == F_SETFL ? va_arg(arguments, int) : 0;
  va_end(arguments);
  if (command == F_GETFL) {
    return O_RDWR | (socket->is_nonblocking() ? O_NONBLOCK : 0);
  }
  if (command == F_SETFL) {
    return socket->set_nonblocking((flags & O_NONBLOCK) != 0);
  }
  return compat::refuse(ENOTSUP, "rfcntl() knows F_GETFL and F_SETFL");
}

WEFT_EXPORT off_t riomap(int number, void* memory, size_t bytes, int protection, int,
                         off_t offset) {
  const auto socket = socket_of(number);
  return socket == nullptr ? -1 : socket->map(memory, bytes, protection, offset);
}

WEFT_EXPORT int riounmap(int number, void* memory, size_t bytes) {
  const auto socket = socket_of(number);
  return socket == nullptr ? -1 : socket->unmap(memory, bytes);
}

WEFT_EXPORT size_t riowrite(int number, const void* data, size_t bytes, off_t offset, int flags) {
  const auto socket = socket_of(number);
  return socket == nullptr
             ? static_cast<size_t>(-1)
             : static_cast<size_t>(socket->write_at(octets(data), bytes, offset, flags));
}

}  // extern "C"
