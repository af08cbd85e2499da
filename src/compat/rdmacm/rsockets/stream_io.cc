// Calls of programs on a stream.

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "compat/rdmacm/ids.h"
#include "compat/rdmacm/refusals.h"
#include "compat/rdmacm/rsockets/stream_wait.h"
#include "compat/rdmacm/translate.h"

namespace weft::rsockets {
namespace {

/// Policy: how long close() waits for data in transit if the peer makes no progress.
constexpr Duration kFlushWaitLimit = Duration::seconds(10);

/// Transfers pieces in sequence, until one is not transferred completely.
template <class Transfer>
[[nodiscard]] ssize_t each_piece(std::span<const iovec> pieces, Transfer transfer) {
  ssize_t done = 0;
  for (const iovec& piece : pieces) {
    if (piece.iov_len == 0) {
      continue;
    }
    const ssize_t moved = transfer(piece, done > 0);
    if (moved < 0) {
      return done > 0 ? done : -1;
    }
    done += moved;
    if (static_cast<std::size_t>(moved) < piece.iov_len) {
      break;
    }
  }
  return done;
}

}  // namespace

Stream::Stream(rdma_cm_id* cm, SocketOptions options) : cm_(cm), fd_(cm->channel->fd) {
  options_ = std::move(options);
}

Stream::~Stream() {
  const int error = errno;  // of the call that released the stream last
  if (is_connected()) {
    shutdown(SHUT_RDWR);
  }
  if (cm_->qp != nullptr) {
    static_cast<void>(compat::move_to_error(compat::id_of(cm_)));
    rdma_disconnect(cm_);
    rdma_destroy_qp(cm_);
  }
  std::ranges::for_each(regions_, ibv_dereg_mr);
  send_memory_.reset();
  receive_memory_.reset();
  targets_.reset();
  rdma_destroy_id(cm_);
  errno = error;
}

// --- opening

int Stream::bind(const sockaddr* address) {
  const Lock lock{lock_};
  sockaddr_storage copy{};
  std::memcpy(&copy, address, compat::length_of(address));
  if (rdma_bind_addr(cm_, static_cast<sockaddr*>(static_cast<void*>(&copy))) != 0) {
    return -1;
  }
  state_ = State::Bound;
  return 0;
}

int Stream::listen(int backlog) {
  const Lock lock{lock_};
  if (state_ == State::Listening) {
    return 0;
  }
  if (rdma_listen(cm_, backlog) != 0) {
    return -1;
  }
  state_ = State::Listening;
  fcntl(fd_, F_SETFL, fcntl(fd_, F_GETFL) | O_NONBLOCK);  // accept() does the waiting itself
  return 0;
}

/// The id of the next connection request; null with errno. Does not block closing the socket.
rdma_cm_id* Stream::next_request() {
  while (true) {
    {
      const Lock lock{lock_};
      if (state_ != State::Listening) {
        compat::refuse(EINVAL, "the socket does not listen");
        return nullptr;
      }
      rdma_cm_id* requested = nullptr;
      if (rdma_get_request(cm_, &requested) == 0) {
        return requested;
      }
      if (errno != EAGAIN || is_nonblocking_) {
        return nullptr;
      }
    }
    pollfd requests{.fd = fd_, .events = POLLIN, .revents = 0};
    poll(&requests, 1, kRepollMs);
  }
}

std::shared_ptr<Socket> Stream::accept() {
  rdma_cm_id* const requested = next_request();
  if (requested == nullptr) {
    return nullptr;
  }
  auto stream = std::make_shared<Stream>(requested, options_);
  const Lock its_lock{stream->lock_};
  stream->state_ = State::Accepting;
  // The client may send before it has confirmed the response, so the confirmation is not waited
  // for.
  const int flags = fcntl(stream->fd_, F_GETFL);
  fcntl(stream->fd_, F_SETFL, flags | O_NONBLOCK);
  if (stream->open_further() != 0 && !stream->is_opening()) {
    const int error = errno;
    rdma_reject(requested, nullptr, 0);
    errno = error;
    return nullptr;
  }
  if (stream->is_opening()) {
    fcntl(stream->fd_, F_SETFL, flags);
  }
  return stream;
}

int Stream::connect(const sockaddr* address) {
  const Lock lock{lock_};
  if (state_ == State::Fresh || state_ == State::Bound) {
    const std::size_t bytes = compat::length_of(address);
    if (bytes == 0) {
      return compat::refuse(EINVAL, "the address is of no family that RDMA has");
    }
    std::memcpy(&cm_->route.addr.dst_storage, address, bytes);
    state_ = State::ResolvingAddress;
  } else if (is_connected()) {
    return compat::refuse(EISCONN, "the socket is connected");
  } else if (is_opening()) {
    return compat::refuse(EALREADY, "the socket is being connected");
  }
  if (open_further() == 0) {
    return is_connected() ? 0 : compat::refuse(ENOTCONN, "the socket cannot be connected any more");
  }
  errno = errno == EAGAIN ? EINPROGRESS : errno;
  return -1;
}

/// Prepares for data transfer. Returns 0, or -1 with errno.
int Stream::be_connected() {
  if (is_opening() && open_further() != 0) {
    return -1;
  }
  if (has_failed()) {
    errno = error_;
    return -1;
  }
  if (state_ == State::Opened) {
    return 0;
  }
  return compat::refuse(ENOTCONN, "the socket is not connected");
}

// --- data

ssize_t Stream::receive(std::byte* out, std::size_t bytes, int flags) {
  Lock lock{lock_};
  if (be_connected() != 0) {
    return -1;
  }
  std::size_t done = 0;
  do {
    if (wait(lock, waits(flags), [&] { return engine_.has_arrived() || !engine_.may_read(); }) !=
        0) {
      return done == 0 ? -1 : static_cast<ssize_t>(done);
    }
    done += engine_.read({out + done, bytes - done}, (flags & MSG_PEEK) != 0);
  } while (done < bytes && (flags & MSG_WAITALL) != 0 && (flags & MSG_PEEK) == 0 &&
           engine_.may_read());
  grant();
  if (done == 0 && bytes != 0 && has_failed()) {
    errno = error_;
    return -1;
  }
  return static_cast<ssize_t>(done);
}

ssize_t Stream::send(const std::byte* data, std::size_t bytes, int flags) {
  Lock lock{lock_};
  if (be_connected() != 0 || send_map_entries(lock, flags) != 0) {
    return -1;
  }
  std::uint32_t wish = kFirstPiece;
  std::size_t done = 0;
  while (done < bytes) {
    if (wait(lock, waits(flags), [&] { return engine_.may_send() || !engine_.may_write(); }) != 0) {
      break;
    }
    if (!engine_.may_write()) {
      errno = has_failed() ? error_ : ECONNRESET;
      break;
    }
    const StreamWrite write = engine_.write({data + done, bytes - done}, wish);
    if (post(write) != 0) {
      break;
    }
    done += write.octets.size();
  }
  return done == 0 && bytes != 0 ? -1 : static_cast<ssize_t>(done);
}

ssize_t Stream::receive(std::byte* out, std::size_t bytes, int flags, Sender sender) {
  const ssize_t done = receive(out, bytes, flags);
  if (done > 0) {
    copy_address(peer_address(), sender.address, sender.bytes);
  }
  return done;
}

/// Once some data has arrived, does not wait for more.
ssize_t Stream::receive_pieces(std::span<const iovec> pieces, int flags, Sender sender) {
  const ssize_t done = each_piece(pieces, [&](const iovec& piece, bool has_some) {
    const bool may_stop = has_some && (flags & MSG_WAITALL) == 0;
    return receive(static_cast<std::byte*>(piece.iov_base), piece.iov_len,
                   may_stop ? flags | MSG_DONTWAIT : flags);
  });
  if (done > 0) {
    copy_address(peer_address(), sender.address, sender.bytes);
  }
  return done;
}

ssize_t Stream::send(const std::byte* data, std::size_t bytes, int flags, const sockaddr* to) {
  return to == nullptr ? send(data, bytes, flags)
                       : compat::refuse(EISCONN, "a stream goes to where it is connected");
}

ssize_t Stream::send_pieces(std::span<const iovec> pieces, int flags, const sockaddr* to) {
  if (to != nullptr) {
    return compat::refuse(EISCONN, "a stream goes to where it is connected");
  }
  return each_piece(pieces, [&](const iovec& piece, bool) {
    return send(static_cast<const std::byte*>(piece.iov_base), piece.iov_len, flags);
  });
}

int Stream::shutdown(int how) {
  Lock lock{lock_};
  if (state_ == State::Listening) {
    state_ = State::Closed;  // wakes threads that wait for requests
    return 0;
  }
  if (state_ == State::Accepting) {
    static_cast<void>(open_further());  // the event that completes it may be pending
  }
  if (!is_connected()) {
    return 0;
  }
  if (how == SHUT_RD && engine_.may_write()) {
    engine_.stop_reading();
    return 0;
  }
  const Instant deadline = os::now() + kFlushWaitLimit;
  const auto has_ended = [&] { return !is_connected() || os::now() > deadline; };
  // Until the message is sent this half must stay open: the peer's own message would end it
  // otherwise.
  const bool may_say =
      wait(lock, true, [&] { return engine_.may_say() || has_ended(); }) == 0 && !has_ended();
  const Control control = engine_.stop(how != SHUT_WR);
  if (may_say && post(engine_.say(control)) == 0) {
    static_cast<void>(wait(lock, true, [&] { return engine_.all_sent() || has_ended(); }));
  }
  if (control == Control::Disconnect) {
    engine_.end();
  }
  completions_processed_.notify_all();
  return 0;
}

// --- state for poll() and options

sockaddr_storage Stream::own_address() { return cm_->route.addr.src_storage; }

sockaddr_storage Stream::peer_address() { return cm_->route.addr.dst_storage; }

int Stream::set_id_option(int name, int value) {
  return rdma_set_option(cm_, RDMA_OPTION_ID, name, &value, sizeof value);
}

int Stream::segment_bytes() {
  return cm_->route.num_paths > 0 ? 1 << (7 + cm_->route.path_rec->mtu) : 2'048;
}

bool Stream::is_nonblocking() {
  const Lock lock{lock_};
  return is_nonblocking_;
}

int Stream::set_nonblocking(bool nonblocking) {
  const Lock lock{lock_};
  is_nonblocking_ = nonblocking;
  if (is_connected() || state_ == State::Listening) {
    return 0;
  }
  const int flags = fcntl(fd_, F_GETFL);
  return fcntl(fd_, F_SETFL, nonblocking ? flags | O_NONBLOCK : flags & ~O_NONBLOCK);
}

int Stream::take_error() {
  const Lock lock{lock_};
  return std::exchange(error_, 0);
}

bool Stream::is_open() {
  const Lock lock{lock_};
  return state_ > State::Listening;
}

}  // namespace weft::rsockets
