#include "daemon/client.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <asio/post.hpp>
#include <cerrno>
#include <utility>

namespace weft::daemon {

using asio::posix::stream_descriptor;

Client::Client(asio::io_context& loop, host::ControlSocket socket, pid_t pid)
    : readable_(loop), death_(loop), socket_(std::move(socket)), pid_(pid) {}

void Client::start(OnMessage on_message, OnEnd on_end) {
  on_message_ = std::move(on_message);
  on_end_ = std::move(on_end);
  readable_.assign(dup(socket_.fd()));
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  if (pidfd >= 0) {
    death_.assign(pidfd);
    death_.async_wait(stream_descriptor::wait_read,
                      [self = shared_from_this()](const std::error_code& error) {
                        if (!error) {
                          self->receive_all();  // what it said before it died
                          self->end();
                        }
                      });
  } else if (errno == ESRCH) {  // it died before it was noticed; a child may hold the connection
    asio::post(readable_.get_executor(), [self = shared_from_this()] { self->end(); });
  }
  wait_for_messages();
}

void Client::wait_for_messages() {
  readable_.async_wait(stream_descriptor::wait_read,
                       [self = shared_from_this()](const std::error_code& error) {
                         if (!error && !self->ended_) {
                           self->receive_all();
                           if (!self->ended_) {
                             self->wait_for_messages();
                           }
                         }
                       });
}

void Client::receive_all() {
  while (!ended_) {
    auto received = socket_.receive();
    if (received) {
      on_message_(*this, std::move(*received));
    } else if (received.error().code == ErrorCode::TryAgain) {
      return;
    } else if (received.error().code == ErrorCode::Refused) {
      end();
    } else {  // malformed: say so and let it go
      send(uabi::Refused{received.error().reason});
      end();
    }
  }
}

void Client::send(uabi::Message message, std::vector<SharedFd> descriptors) {
  if (ended_) {
    return;
  }
  queue_.push_back({std::move(message), std::move(descriptors)});
  if (queue_.size() > kMaxQueued) {
    end();
    return;
  }
  flush();
}

void Client::flush() {
  while (!queue_.empty()) {
    std::vector<int> fds;
    for (const SharedFd& fd : queue_.front().descriptors) {
      fds.push_back(fd->get());
    }
    const auto sent = socket_.send(queue_.front().message, fds);
    if (!sent && sent.error().code == ErrorCode::TryAgain) {
      wait_for_room();
      return;
    }
    queue_.pop_front();  // sent, or nobody is there: the end is noticed by reading
  }
}

void Client::wait_for_room() {
  if (waits_for_room_) {
    return;
  }
  waits_for_room_ = true;
  readable_.async_wait(stream_descriptor::wait_write,
                       [self = shared_from_this()](const std::error_code& error) {
                         self->waits_for_room_ = false;
                         if (!error && !self->ended_) {
                           self->flush();
                         }
                       });
}

void Client::end() {
  if (ended_) {
    return;
  }
  ended_ = true;
  const auto self = shared_from_this();
  std::error_code ignored;
  readable_.close(ignored);
  death_.close(ignored);
  socket_.close();
  if (on_end_) {
    on_end_(*this);
  }
}

}  // namespace weft::daemon
