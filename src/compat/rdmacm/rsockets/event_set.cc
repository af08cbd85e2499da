#include "compat/rdmacm/rsockets/event_set.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "compat/rdmacm/later.h"
#include "compat/rdmacm/refusals.h"
#include "compat/rdmacm/rsockets/sockets.h"
#include "os/clock.h"

namespace weft::rsockets {
namespace {

/// Events with the same value in poll(2) and epoll(7); errors and hang-ups are always reported.
constexpr std::uint32_t kPollEvents = EPOLLIN | EPOLLPRI | EPOLLOUT | EPOLLRDNORM | EPOLLRDBAND |
                                      EPOLLWRNORM | EPOLLWRBAND | EPOLLRDHUP | EPOLLERR | EPOLLHUP;
static_assert(EPOLLIN == POLLIN && EPOLLPRI == POLLPRI && EPOLLOUT == POLLOUT &&
              EPOLLERR == POLLERR && EPOLLHUP == POLLHUP && EPOLLRDHUP == POLLRDHUP);

std::mutex sets_lock;
auto& sets =
    *new std::map<int, std::shared_ptr<EventSet>>;  // never destroyed: programs exit with open sets

[[nodiscard]] std::shared_ptr<EventSet> find_set(int number) {
  const std::lock_guard guard{sets_lock};
  const auto found = sets.find(number);
  return found == sets.end() ? nullptr : found->second;
}

[[nodiscard]] bool is_open(int fd) { return find_socket(fd) != nullptr || fcntl(fd, F_GETFD) >= 0; }

}  // namespace

std::shared_ptr<EventSet> EventSet::create(int flags) {
  if ((flags & ~(EPOLL_CLOEXEC | O_NONBLOCK)) != 0) {
    compat::refuse(EINVAL, "a set of events takes EPOLL_CLOEXEC and O_NONBLOCK only");
    return nullptr;
  }
  os::UniqueFd news{eventfd(0, EFD_NONBLOCK | ((flags & EPOLL_CLOEXEC) != 0 ? EFD_CLOEXEC : 0))};
  return news.get() < 0 ? nullptr : std::make_shared<EventSet>(std::move(news));
}

int EventSet::add(int fd, const epoll_event& event) {
  if (fd == this->fd() || find_set(fd) != nullptr) {
    return compat::refuse(EINVAL, "a set of events is no member of one");
  }
  if (!is_open(fd)) {
    return compat::refuse(EBADF, "this number is no rsocket's, nor of another open descriptor");
  }
  const auto [place, is_new] =
      members_.try_emplace(fd, Member{.events = event.events, .data = event.data});
  return is_new ? 0 : compat::refuse(EEXIST, "the descriptor is in the set already");
}

int EventSet::change(int operation, int fd, const epoll_event* event) {
  if (operation != EPOLL_CTL_DEL && event == nullptr) {
    return compat::refuse(EFAULT, "there is no event to wait for");
  }
  const std::lock_guard guard{lock_};
  const auto member = members_.find(fd);
  if (operation != EPOLL_CTL_ADD && member == members_.end()) {
    return compat::refuse(ENOENT, "the descriptor is not in the set");
  }
  switch (operation) {
    case EPOLL_CTL_ADD:
      if (add(fd, *event) != 0) {
        return -1;
      }
      break;
    case EPOLL_CTL_MOD:
      member->second = {.events = event->events, .data = event->data};
      break;
    case EPOLL_CTL_DEL:
      members_.erase(member);
      break;
    default:
      return compat::refuse(EINVAL, "a set is changed by EPOLL_CTL_ADD, MOD and DEL");
  }
  tell_waiters();
  return 0;
}

void EventSet::tell_waiters() {
  if (waiters_ != 0) {
    const std::uint64_t one = 1;
    static_cast<void>(!write(completions_processed_.get(), &one, sizeof one));
  }
}

void EventSet::forget(int fd) {
  const std::lock_guard guard{lock_};
  members_.erase(fd);
}

void EventSet::end() {
  const std::lock_guard guard{lock_};
  has_ended_ = true;
  tell_waiters();
}

/// The set's own descriptor, then its members, starting after the one reported last.
std::vector<pollfd> EventSet::members_to_poll() {
  std::vector<pollfd> wanted{
      {.fd = completions_processed_.get(), .events = POLLIN, .revents = 0}
  };
  const auto put = [&](const auto& each) {
    if (!each.second.is_spent) {
      wanted.push_back({.fd = each.first,
                        .events = static_cast<short>(each.second.events & kPollEvents),
                        .revents = 0});
    }
  };
  const auto next = members_.upper_bound(last_told_);
  std::for_each(next, members_.end(), put);
  std::for_each(members_.begin(), next, put);
  return wanted;
}

/// Returns how many events there are. A descriptor that was closed without notice leaves the set,
/// as in Linux.
int EventSet::collect(std::span<const pollfd> polled, std::span<epoll_event> out) {
  std::size_t told = 0;
  for (const pollfd& each : polled) {
    const auto member = members_.find(each.fd);
    if (each.revents == 0 || member == members_.end() || member->second.is_spent) {
      continue;
    }
    if ((each.revents & POLLNVAL) != 0) {
      members_.erase(member);
      continue;
    }
    if (told == out.size()) {
      break;
    }
    out[told++] = {.events = static_cast<std::uint32_t>(each.revents) & kPollEvents,
                   .data = member->second.data};
    last_told_ = each.fd;
    member->second.is_spent = (member->second.events & EPOLLONESHOT) != 0;
  }
  return static_cast<int>(told);
}

int EventSet::wait(std::span<epoll_event> out, int timeout_ms) {
  const Instant deadline = os::now() + Duration::milliseconds(std::max(timeout_ms, 0));
  while (true) {
    std::unique_lock guard{lock_};
    if (has_ended_) {
      return compat::refuse(EBADF, "the set of events was closed");
    }
    std::vector<pollfd> polled = members_to_poll();
    ++waiters_;
    guard.unlock();
    const std::int64_t left_ms = (deadline - os::now()).milliseconds() + 1;
    const int wait_ms =
        timeout_ms < 0 ? -1 : static_cast<int>(std::clamp<std::int64_t>(left_ms, 0, timeout_ms));
    const int ready = poll_all(polled.data(), polled.size(), wait_ms);
    const int error = errno;
    guard.lock();
    if (--waiters_ == 0) {
      std::uint64_t changes{};
      static_cast<void>(!read(completions_processed_.get(), &changes, sizeof changes));
    }
    if (ready < 0) {
      errno = error;
      return -1;
    }
    if (const int told = collect(std::span{polled}.subspan(1), out); told != 0) {
      return told;
    }
    if (timeout_ms >= 0 && os::now() >= deadline) {
      return 0;
    }
  }
}

bool close_set(int number) {
  std::shared_ptr<EventSet> set;
  {
    const std::lock_guard guard{sets_lock};
    if (auto found = sets.extract(number)) {
      set = std::move(found.mapped());
    }
  }
  if (set != nullptr) {
    set->end();
  }
  return set != nullptr;
}

void forget_in_sets(int fd) {
  std::vector<std::shared_ptr<EventSet>> all;
  {
    const std::lock_guard guard{sets_lock};  // before any set's own lock
    for (const auto& [number, set] : sets) {
      all.push_back(set);
    }
  }
  for (const auto& set : all) {
    set->forget(fd);
  }
}

}  // namespace weft::rsockets

using namespace weft;
using namespace weft::rsockets;

extern "C" {

WEFT_EXPORT int repoll_create(int flags) {
  auto set = EventSet::create(flags);
  if (set == nullptr) {
    return -1;
  }
  const std::lock_guard guard{sets_lock};
  const int number = set->fd();
  sets[number] = std::move(set);
  return number;
}

WEFT_EXPORT int repoll_ctl(int number, int operation, int fd, epoll_event* event) {
  const auto set = find_set(number);
  return set == nullptr ? compat::refuse(EBADF, "this number is no set of events")
                        : set->change(operation, fd, event);
}

WEFT_EXPORT int repoll_wait(int number, epoll_event* out, int most, int timeout) {
  const auto set = find_set(number);
  if (set == nullptr) {
    return compat::refuse(EBADF, "this number is no set of events");
  }
  if (most <= 0 || out == nullptr) {
    return compat::refuse(EINVAL, "there is no room for events");
  }
  return set->wait({out, static_cast<std::size_t>(most)}, timeout);
}

}  // extern "C"
