#pragma once

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <deque>
#include <mutex>

#include "base/lock.h"
#include "base/result.h"
#include "os/unique_fd.h"

namespace weft::os {

/// Events for a program that waits in read, poll or epoll: a queue and an eventfd that counts it.
/// A program may make the descriptor non-blocking with fcntl. Any thread.
template <class Event>
class EventQueue {
 public:
  EventQueue() : fd_(eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE)) {}

  /// -1 when the system has no descriptors left.
  [[nodiscard]] int fd() const { return fd_.get(); }

  void push(const Event& event) {
    {
      const std::lock_guard guard{lock_};
      events_.push_back(event);
    }
    const std::uint64_t one = 1;
    static_cast<void>(!::write(fd_.get(), &one, sizeof one));
  }

  /// Takes the oldest event; waits for one unless the descriptor is non-blocking (TryAgain) or a
  /// signal came (Io, errno EINTR).
  [[nodiscard]] Result<Event> take() {
    while (true) {
      std::uint64_t one{};
      if (::read(fd_.get(), &one, sizeof one) != sizeof one) {
        const bool none = errno == EAGAIN || errno == EWOULDBLOCK;
        return fail(none ? ErrorCode::TryAgain : ErrorCode::Io, "no event");
      }
      const std::lock_guard guard{lock_};
      if (!events_.empty()) {
        Event event = events_.front();
        events_.pop_front();
        return event;
      }
      // What the count stood for was purged: wait for the next.
    }
  }

  /// Drops the events of an object that goes away; returns how many.
  template <class Predicate>
  std::size_t purge(Predicate is_stale) {
    const std::lock_guard guard{lock_};
    const std::size_t purged = std::erase_if(events_, is_stale);
    for (std::size_t i = 0; i < purged; ++i) {
      pollfd ready{.fd = fd_.get(), .events = POLLIN, .revents = 0};
      std::uint64_t one{};
      if (::poll(&ready, 1, 0) == 1) {  // another thread may have taken this count already
        static_cast<void>(!::read(fd_.get(), &one, sizeof one));
      }
    }
    return purged;
  }

 private:
  UniqueFd fd_;
  PolicyLock lock_{LockPolicy::Spin};
  std::deque<Event> events_;
};

}  // namespace weft::os
