#include "daemon/ibsim/connection.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <asio/post.hpp>
#include <cerrno>
#include <system_error>
#include <utility>

#include "os/clock.h"

namespace weft::daemon {

using asio::posix::stream_descriptor;

IbsimConnection::IbsimConnection(asio::io_context& loop, os::UniqueFd socket, pid_t pid,
                                 const node::UmadPortAccess& access)
    : socket_(loop, socket.release()), process_exit_(loop), pid_(pid), port_(access.port) {
  client_.emplace(access);
}

void IbsimConnection::start(Handlers handlers) {
  handlers_ = std::move(handlers);
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  if (pidfd >= 0) {
    process_exit_.assign(pidfd);
    wait_for_exit();
  } else if (errno == ESRCH) {  // it died before we opened the pidfd
    asio::post(socket_.get_executor(), [self = shared_from_this()] { self->ended_by_peer(); });
  }
  wait_for_mads();
}

void IbsimConnection::wait_for_exit() {
  process_exit_.async_wait(stream_descriptor::wait_read,
                           [self = shared_from_this()](const std::error_code& error) {
                             if (!error) {
                               self->ended_by_peer();
                             }
                           });
}

void IbsimConnection::wait_for_mads() {
  socket_.async_wait(stream_descriptor::wait_read,
                     [self = shared_from_this()](const std::error_code& error) {
                       if (error || !self->client_) {
                         return;
                       }
                       for (int turn = 0; turn < kBatch && self->receive_one(); ++turn) {
                       }
                       if (self->client_) {
                         self->handlers_.on_sent();
                       }
                       if (self->client_) {
                         self->wait_for_mads();
                       }
                     });
}

/// Returns false if no MAD is queued or the peer is gone.
bool IbsimConnection::receive_one() {
  std::array<std::byte, sizeof(IbsimPacket) + 1> buffer{};  // one more, to detect longer datagrams
  const ssize_t count = recv(socket_.native_handle(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (count < 0) {
    if (errno != EAGAIN && errno != EINTR) {
      ended_by_peer();
    }
    return false;
  }
  if (!client_->handle(ByteSpan{buffer}.first(static_cast<std::size_t>(count)), os::now())) {
    handlers_.on_offence("datagrams that are no MADs, or too many requests");
  }
  return true;
}

void IbsimConnection::flush() {
  while (client_ && !waits_for_room_) {
    if (!unsent_) {
      unsent_ = client_->poll();
    }
    if (!unsent_) {
      return;
    }
    const auto bytes = write_ibsim(*unsent_);
    if (send(socket_.native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL) <
            0 &&
        errno == EAGAIN) {
      return wait_for_room();
    }
    unsent_.reset();  // sent, or the program is gone, which wait_for_exit() reports
  }
}

void IbsimConnection::wait_for_room() {
  waits_for_room_ = true;
  socket_.async_wait(stream_descriptor::wait_write,
                     [self = shared_from_this()](const std::error_code& error) {
                       self->waits_for_room_ = false;
                       if (!error) {
                         self->flush();
                       }
                     });
}

void IbsimConnection::ended_by_peer() {
  if (client_) {
    const auto self = shared_from_this();
    handlers_.on_end();
  }
}

void IbsimConnection::end() {
  std::error_code ignored;
  socket_.close(ignored);
  process_exit_.close(ignored);
  client_.reset();
}

}  // namespace weft::daemon
