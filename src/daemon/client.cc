#include "daemon/client.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <asio/post.hpp>
#include <cerrno>
#include <chrono>
#include <utility>

#include "os/clock.h"

namespace weft::daemon {

using asio::posix::stream_descriptor;

namespace {

constexpr std::chrono::milliseconds kBudgetPause{20};  // policy

}  // namespace

Client::Client(asio::io_context& loop, host::ControlSocket socket,
               std::shared_ptr<Requester> requester)
    : readable_(loop),
      process_exit_(loop),
      timer_(loop),
      socket_(std::move(socket)),
      requester_(std::move(requester)) {
  ++requester_->connections;
}

Client::~Client() { --requester_->connections; }

void Client::start(Handlers handlers) {
  handlers_ = std::move(handlers);
  readable_.assign(dup(socket_.fd()));
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid(), 0));
  if (pidfd >= 0) {
    process_exit_.assign(pidfd);
    process_exit_.async_wait(stream_descriptor::wait_read,
                             [self = shared_from_this()](const std::error_code& error) {
                               if (!error) {
                                 self->receive(kMessagesAfterDeath, false);
                                 self->end();
                               }
                             });
    // it died before we opened the pidfd; a child may hold the connection
  } else if (errno == ESRCH) {
    asio::post(readable_.get_executor(), [self = shared_from_this()] { self->end(); });
  }
  wait_for_messages();
}

void Client::wait_for_messages() {
  readable_.async_wait(stream_descriptor::wait_read,
                       [self = shared_from_this()](const std::error_code& error) {
                         if (error || self->ended_) {
                           return;
                         }
                         self->receive(kBatch, true);
                         if (self->ended_) {
                           return;
                         }
                         if (self->queue_.size() > kMaxUnread) {
                           self->waits_for_flush_ = true;
                         } else if (self->requester_->budget.is_empty(os::now())) {
                           self->wait_for_budget();
                         } else {
                           self->wait_for_messages();
                         }
                       });
}

void Client::wait_for_budget() {
  handlers_.on_offence(*this, "times more requests than a process may make");
  timer_.expires_after(kBudgetPause);
  timer_.async_wait([self = shared_from_this()](const std::error_code& error) {
    if (!error && !self->ended_) {
      self->wait_for_messages();
    }
  });
}

void Client::receive(std::size_t most, bool within_budget) {
  for (std::size_t i = 0; i < most && !ended_; ++i) {
    if (within_budget && (queue_.size() > kMaxUnread || requester_->budget.is_empty(os::now()))) {
      return;
    }
    auto received = socket_.receive();
    if (received) {
      charge_parts(message_parts_);
      handlers_.on_message(*this, std::move(*received));
    } else if (received.error().code == ErrorCode::TryAgain) {
      return;
    } else if (received.error().code == ErrorCode::Refused) {
      end();
    } else {
      handlers_.on_offence(*this, "malformed messages");
      refuse(received.error().reason);
    }
  }
}

void Client::charge_parts(std::int64_t parts) { requester_->budget.charge(parts, os::now()); }

/// For a client that does not read, messages that replace earlier ones are merged: finds the queued
/// message that `message` supersedes. The new content takes the old one's place in the queue, so
/// that the order relative to others, such as Briefed, is kept. Null if there is none.
Client::Outgoing* Client::superseded(const uabi::Message& message) {
  const auto* const group = message.get_if<uabi::GroupMembers>();
  if (group == nullptr && !message.holds<uabi::TablesChanged>()) {
    return nullptr;
  }
  const auto old = std::ranges::find_if(queue_, [&](const Outgoing& waiting) {
    const auto* const old_group = waiting.message.get_if<uabi::GroupMembers>();
    return group != nullptr ? old_group != nullptr && old_group->mlid == group->mlid
                            : waiting.message.holds<uabi::TablesChanged>();
  });
  return old != queue_.end() ? &*old : nullptr;
}

void Client::send(uabi::Message message, std::vector<SharedFd> descriptors) {
  if (ended_) {
    return;
  }
  Outgoing next{std::move(message), std::move(descriptors)};
  if (Outgoing* const old = superseded(next.message)) {
    *old = std::move(next);
  } else {
    queue_.push_back(std::move(next));
  }
  if (queue_.size() > kMaxQueued) {
    handlers_.on_offence(*this, "times too many messages left unread");
    end();
    return;
  }
  flush();
}

void Client::refuse(std::string reason) {
  if (reason.size() > uabi::kMaxTextBytes) {
    reason.resize(uabi::kMaxTextBytes);
  }
  send(uabi::Refused{std::move(reason)});
  if (!ended_) {
    // Discards what the client has sent: closing a socket with unread data would discard our last
    // message, which contains the reason.
    shutdown(socket_.fd(), SHUT_RD);
    for (std::size_t i = 0; i < kMessagesAfterDeath; ++i) {
      if (const auto rest = socket_.receive(); !rest && rest.error().code != ErrorCode::Io) {
        break;
      }
    }
    end();
  }
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
    queue_.pop_front();  // sent, or the peer is gone, which reading reports
  }
  if (waits_for_flush_) {
    waits_for_flush_ = false;
    wait_for_messages();
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
  process_exit_.close(ignored);
  timer_.cancel();
  socket_.close();
  handlers_.on_end(*this);
}

}  // namespace weft::daemon
