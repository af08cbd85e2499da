#pragma once

// A set of rsockets and ordinary descriptors to wait for, as epoll(7) has them: repoll_create() and
// its like of rdma-core 65. Level-triggered: with EPOLLET it tells of what is ready again and
// again, which a program of edges must put up with anyway. Any thread may call anything.

#include <poll.h>
#include <sys/epoll.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "os/unique_fd.h"

namespace weft::rsockets {

class EventSet {
 public:
  /// Null with errno; `flags` as of epoll_create1(2).
  [[nodiscard]] static std::shared_ptr<EventSet> create(int flags);
  explicit EventSet(os::UniqueFd news) : completions_processed_(std::move(news)) {}

  /// The number that the program knows it by.
  [[nodiscard]] int fd() const { return completions_processed_.get(); }

  /// As epoll_ctl(2) and epoll_wait(2): -1 with errno when they fail.
  [[nodiscard]] int change(int operation, int fd, const epoll_event* event);
  [[nodiscard]] int wait(std::span<epoll_event> out, int timeout_ms);
  /// The program has closed that descriptor, which is in no set any more.
  void forget(int fd);
  /// The program has closed the set: who waits is told.
  void end();

 private:
  struct Member {
    std::uint32_t events{};
    epoll_data_t data{};
    bool is_spent{};  // EPOLLONESHOT, and it was told
  };

  [[nodiscard]] int add(int fd, const epoll_event& event);
  [[nodiscard]] std::vector<pollfd> members_to_poll();
  [[nodiscard]] int collect(std::span<const pollfd> polled, std::span<epoll_event> out);
  void tell_waiters();

  /// An eventfd: readable from a change until the last who waited then has seen it.
  const os::UniqueFd completions_processed_;
  std::mutex lock_;  // of all below
  std::map<int, Member> members_;
  int waiters_{};
  int last_told_{-1};  // descriptors take turns when there is no room for all
  bool has_ended_{};
};

/// The set of that number, which the program closes. False: it is none.
[[nodiscard]] bool close_set(int number);
/// The program closes a descriptor: it leaves all sets.
void forget_in_sets(int fd);

}  // namespace weft::rsockets
