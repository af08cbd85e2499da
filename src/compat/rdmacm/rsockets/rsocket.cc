// rsocket(7): the calls of sockets over RDMA connections.

#include <fcntl.h>
#include <poll.h>
#include <sys/select.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "compat/rdmacm/ids.h"
#include "compat/rdmacm/refusals.h"
#include "compat/rdmacm/rsockets/sockets.h"
#include "compat/rdmacm/translate.h"

namespace weft::rsockets {
namespace {

std::mutex streams_lock;
auto& streams = *new std::map<int, std::shared_ptr<Stream>>;  // programs end with sockets open

/// The same; null after refuse().
[[nodiscard]] std::shared_ptr<Stream> stream_of(int number) {
  auto stream = find_stream(number);
  if (stream == nullptr) {
    compat::refuse(EBADF, "this number is no rsocket's");
  }
  return stream;
}

[[nodiscard]] int add(std::shared_ptr<Stream> stream) {
  const std::lock_guard guard{streams_lock};
  const int number = stream->fd();
  streams[number] = std::move(stream);
  return number;
}

int copy_address(const sockaddr* from, sockaddr* to, socklen_t* bytes) {
  const socklen_t length = compat::length_of(from);
  if (length == 0) {
    return compat::refuse(ENOTCONN, "the socket has no such address yet");
  }
  std::memcpy(to, from, std::min(*bytes, length));
  *bytes = length;
  return 0;
}

[[nodiscard]] const std::byte* octets(const void* data) {
  return static_cast<const std::byte*>(data);
}

/// Pieces one after another, until one does not go whole.
template <class Transfer>
[[nodiscard]] ssize_t each_piece(const iovec* pieces, std::size_t count, Transfer transfer) {
  ssize_t done = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (pieces[i].iov_len == 0) {
      continue;
    }
    const ssize_t moved = transfer(pieces[i], done > 0);
    if (moved < 0) {
      return done > 0 ? done : -1;
    }
    done += moved;
    if (static_cast<std::size_t>(moved) < pieces[i].iov_len) {
      break;
    }
  }
  return done;
}

[[nodiscard]] ssize_t send_pieces(int socket, const iovec* pieces, std::size_t count, int flags) {
  const auto stream = stream_of(socket);
  if (stream == nullptr) {
    return -1;
  }
  return each_piece(pieces, count, [&](const iovec& piece, bool) {
    return stream->send(octets(piece.iov_base), piece.iov_len, flags);
  });
}

/// Once something has come, nobody waits for more.
[[nodiscard]] ssize_t receive_pieces(int socket, const iovec* pieces, std::size_t count,
                                     int flags) {
  const auto stream = stream_of(socket);
  if (stream == nullptr) {
    return -1;
  }
  return each_piece(pieces, count, [&](const iovec& piece, bool has_some) {
    const bool may_stop = has_some && (flags & MSG_WAITALL) == 0;
    return stream->receive(static_cast<std::byte*>(piece.iov_base), piece.iov_len,
                           may_stop ? flags | MSG_DONTWAIT : flags);
  });
}

}  // namespace

std::shared_ptr<Stream> find_stream(int number) {
  const std::lock_guard guard{streams_lock};
  const auto found = streams.find(number);
  return found == streams.end() ? nullptr : found->second;
}

}  // namespace weft::rsockets

using namespace weft;
using namespace weft::rsockets;

extern "C" {

WEFT_EXPORT int rsocket(int domain, int type, int) {
  if (domain != AF_INET && domain != AF_INET6 && domain != AF_IB) {
    return compat::refuse(ENOTSUP, "rsockets are of AF_INET, AF_INET6 or AF_IB");
  }
  if ((type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC)) != SOCK_STREAM) {
    return compat::refuse(ENOTSUP, "Weft's rsockets are streams: SOCK_STREAM");
  }
  rdma_cm_id* cm = nullptr;
  if (rdma_create_id(nullptr, &cm, nullptr, RDMA_PS_TCP) != 0) {
    return -1;
  }
  auto stream = std::make_shared<Stream>(cm, StreamOptions{});
  cm->route.addr.src_addr.sa_family = static_cast<sa_family_t>(domain);
  if ((type & SOCK_NONBLOCK) != 0 && stream->set_nonblocking(true) != 0) {
    return -1;
  }
  return add(std::move(stream));
}

WEFT_EXPORT int rbind(int socket, const sockaddr* address, socklen_t) {
  const auto stream = stream_of(socket);
  return stream == nullptr ? -1 : stream->bind(address);
}

WEFT_EXPORT int rlisten(int socket, int backlog) {
  const auto stream = stream_of(socket);
  return stream == nullptr ? -1 : stream->listen(backlog);
}

WEFT_EXPORT int raccept(int socket, sockaddr* address, socklen_t* bytes) {
  const auto listener = stream_of(socket);
  if (listener == nullptr) {
    return -1;
  }
  auto accepted = listener->accept();
  if (accepted == nullptr) {
    return -1;
  }
  if (address != nullptr && bytes != nullptr) {
    copy_address(&accepted->cm()->route.addr.dst_addr, address, bytes);
  }
  return add(std::move(accepted));
}

WEFT_EXPORT int rconnect(int socket, const sockaddr* address, socklen_t) {
  const auto stream = stream_of(socket);
  return stream == nullptr ? -1 : stream->connect(address);
}

WEFT_EXPORT int rshutdown(int socket, int how) {
  const auto stream = stream_of(socket);
  return stream == nullptr ? -1 : stream->shutdown(how);
}

WEFT_EXPORT int rclose(int socket) {
  const auto stream = stream_of(socket);
  if (stream == nullptr) {
    return -1;
  }
  stream->shutdown(SHUT_RDWR);
  const std::lock_guard guard{streams_lock};
  streams.erase(socket);
  return 0;
}

WEFT_EXPORT ssize_t rrecv(int socket, void* out, size_t bytes, int flags) {
  const auto stream = stream_of(socket);
  return stream == nullptr ? -1 : stream->receive(static_cast<std::byte*>(out), bytes, flags);
}

WEFT_EXPORT ssize_t rrecvfrom(int socket, void* out, size_t bytes, int flags, sockaddr* address,
                              socklen_t* address_bytes) {
  const ssize_t done = rrecv(socket, out, bytes, flags);
  if (done > 0 && address != nullptr && address_bytes != nullptr) {
    rgetpeername(socket, address, address_bytes);
  }
  return done;
}

WEFT_EXPORT ssize_t rrecvmsg(int socket, msghdr* message, int flags) {
  if (message->msg_control != nullptr && message->msg_controllen != 0) {
    return compat::refuse(ENOTSUP, "rsockets carry no control messages");
  }
  return receive_pieces(socket, message->msg_iov, message->msg_iovlen, flags);
}

WEFT_EXPORT ssize_t rsend(int socket, const void* data, size_t bytes, int flags) {
  const auto stream = stream_of(socket);
  return stream == nullptr ? -1 : stream->send(octets(data), bytes, flags);
}

WEFT_EXPORT ssize_t rsendto(int socket, const void* data, size_t bytes, int flags,
                            const sockaddr* address, socklen_t) {
  if (address != nullptr) {
    return compat::refuse(EISCONN, "a stream goes to where it is connected");
  }
  return rsend(socket, data, bytes, flags);
}

WEFT_EXPORT ssize_t rsendmsg(int socket, const msghdr* message, int flags) {
  if (message->msg_control != nullptr && message->msg_controllen != 0) {
    return compat::refuse(ENOTSUP, "rsockets carry no control messages");
  }
  return send_pieces(socket, message->msg_iov, message->msg_iovlen, flags);
}

WEFT_EXPORT ssize_t rread(int socket, void* out, size_t bytes) {
  return rrecv(socket, out, bytes, 0);
}

WEFT_EXPORT ssize_t rreadv(int socket, const iovec* pieces, int count) {
  return receive_pieces(socket, pieces, static_cast<std::size_t>(std::max(count, 0)), 0);
}

WEFT_EXPORT ssize_t rwrite(int socket, const void* data, size_t bytes) {
  return rsend(socket, data, bytes, 0);
}

WEFT_EXPORT ssize_t rwritev(int socket, const iovec* pieces, int count) {
  return send_pieces(socket, pieces, static_cast<std::size_t>(std::max(count, 0)), 0);
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

WEFT_EXPORT int rgetpeername(int socket, sockaddr* address, socklen_t* bytes) {
  const auto stream = stream_of(socket);
  return stream == nullptr ? -1 : copy_address(&stream->cm()->route.addr.dst_addr, address, bytes);
}

WEFT_EXPORT int rgetsockname(int socket, sockaddr* address, socklen_t* bytes) {
  const auto stream = stream_of(socket);
  return stream == nullptr ? -1 : copy_address(&stream->cm()->route.addr.src_addr, address, bytes);
}

WEFT_EXPORT int rsetsockopt(int socket, int level, int name, const void* value, socklen_t bytes) {
  const auto stream = stream_of(socket);
  return stream == nullptr ? -1 : set_option(*stream, level, name, value, bytes);
}

WEFT_EXPORT int rgetsockopt(int socket, int level, int name, void* value, socklen_t* bytes) {
  const auto stream = stream_of(socket);
  return stream == nullptr ? -1 : get_option(*stream, level, name, value, bytes);
}

WEFT_EXPORT int rfcntl(int socket, int command, ...) {
  const auto stream = stream_of(socket);
  if (stream == nullptr) {
    return -1;
  }
  std::va_list arguments;
  va_start(arguments, command);
  const int flags = command == F_SETFL ? va_arg(arguments, int) : 0;
  va_end(arguments);
  if (command == F_GETFL) {
    return O_RDWR | (stream->is_nonblocking() ? O_NONBLOCK : 0);
  }
  if (command == F_SETFL) {
    return stream->set_nonblocking((flags & O_NONBLOCK) != 0);
  }
  return compat::refuse(ENOTSUP, "rfcntl() knows F_GETFL and F_SETFL");
}

WEFT_EXPORT off_t riomap(int socket, void* memory, size_t bytes, int protection, int,
                         off_t offset) {
  const auto stream = stream_of(socket);
  return stream == nullptr ? -1 : stream->map(memory, bytes, protection, offset);
}

WEFT_EXPORT int riounmap(int socket, void* memory, size_t bytes) {
  const auto stream = stream_of(socket);
  return stream == nullptr ? -1 : stream->unmap(memory, bytes);
}

WEFT_EXPORT size_t riowrite(int socket, const void* data, size_t bytes, off_t offset, int flags) {
  const auto stream = stream_of(socket);
  return stream == nullptr
             ? static_cast<size_t>(-1)
             : static_cast<size_t>(stream->write_at(octets(data), bytes, offset, flags));
}

}  // extern "C"
