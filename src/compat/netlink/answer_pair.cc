#include "compat/netlink/answer_pair.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <ctime>
#include <utility>

#include "compat/netlink/real.h"

namespace weft::compat {
namespace {

constinit const Real<int(int)> real_close{"close"};
constinit const Real<ssize_t(int, void*, std::size_t, int)> real_recv{"recv"};

/// Policy: the daemon answers within milliseconds, and after a second at most when it asks programs
/// that do not answer it.
constexpr int kWaitLimit_ms = 30'000;

constinit std::atomic<pid_t> owner{0};

}  // namespace

/// The pair that no question has now: whoever sets `is_taken` has it, and leaves what he found or
/// another.
struct AnswerPair::Kept {
  std::atomic<bool> is_taken{false};
  Pair pair;
};

constinit AnswerPair::Kept AnswerPair::kept{};

bool is_own_memory() { return owner.load(std::memory_order_relaxed) == getpid(); }

/// A thread that had the pair when its process forked is not in the child.
void become_owner() {
  owner.store(getpid(), std::memory_order_relaxed);
  const auto parents = std::exchange(AnswerPair::kept.pair, {});
  if (!AnswerPair::kept.is_taken.exchange(false, std::memory_order_acquire)) {
    AnswerPair::close(parents);
  }
}

bool AnswerPair::identify(int fd, Identity& identity) {
  struct stat status{};
  if (fd < 0 || fstat(fd, &status) != 0) {
    return false;
  }
  identity = {.device = status.st_dev, .inode = status.st_ino};
  return true;
}

/// Programs close descriptors that they do not know, and open their own in their place.
bool AnswerPair::is_still(int fd, const Identity& identity) {
  Identity now{};
  return identify(fd, now) && now == identity;
}

AnswerPair::Pair AnswerPair::make() {
  std::array<int, 2> ends{-1, -1};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return {};
  }
  Pair pair{.own = ends[0], .daemons = ends[1]};
  static_cast<void>(identify(ends[0], pair.identities[0]) && identify(ends[1], pair.identities[1]));
  return pair;
}

void AnswerPair::close(const Pair& pair) {
  if (is_still(pair.own, pair.identities[0])) {
    real_close(pair.own);
  }
  if (is_still(pair.daemons, pair.identities[1])) {
    real_close(pair.daemons);
  }
}

AnswerPair::AnswerPair() {
  if (is_own_memory() && !kept.is_taken.exchange(true, std::memory_order_acquire)) {
    pair_ = std::exchange(kept.pair, {});
    kept.is_taken.store(false, std::memory_order_release);
  }
  if (!is_still(pair_.own, pair_.identities[0]) || !is_still(pair_.daemons, pair_.identities[1])) {
    close(pair_);
    pair_ = make();
  }
}

AnswerPair::~AnswerPair() {
  const int before = errno;
  if (is_settled_ && is_made() && is_own_memory() &&
      !kept.is_taken.exchange(true, std::memory_order_acquire)) {
    std::swap(pair_, kept.pair);
    kept.is_taken.store(false, std::memory_order_release);
  }
  close(pair_);
  errno = before;
}

bool AnswerPair::await(int connection, uabi::NetlinkAnswer& answer) {
  timespec began{};
  clock_gettime(CLOCK_MONOTONIC, &began);
  int left_ms = kWaitLimit_ms;
  is_settled_ = false;
  while (true) {
    // The connection ends with the daemon, or when it has had enough of this program.
    std::array<pollfd, 2> ready{
        pollfd{.fd = pair_.own,  .events = POLLIN, .revents = 0},
        pollfd{.fd = connection, .events = 0,      .revents = 0}
    };
    if (poll(ready.data(), ready.size(), left_ms) > 0) {
      break;
    }
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    left_ms = kWaitLimit_ms - static_cast<int>((now.tv_sec - began.tv_sec) * 1'000 +
                                               (now.tv_nsec - began.tv_nsec) / 1'000'000);
    if (left_ms <= 0) {
      errno = ETIMEDOUT;
      return false;
    }
  }
  if (real_recv(pair_.own, &answer, sizeof answer, MSG_DONTWAIT) !=
      static_cast<ssize_t>(sizeof answer)) {
    errno = ECONNREFUSED;  // the daemon is gone
    return false;
  }
  is_settled_ = true;
  return true;
}

}  // namespace weft::compat
