#pragma once

// A set of rsockets and ordinary descriptors to wait for, as with epoll(7): repoll_create() and the
// like of rdma-core 65. Level-triggered: with EPOLLET, ready descriptors are reported repeatedly,
// which programs that use it must tolerate anyway. Any thread may call any member.

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

/// One epoll-like set of a program.
class EventSet {
 public:
  /// `flags` as of epoll_create1(2). Null with errno on failure.
  [[nodiscard]] static std::shared_ptr<EventSet> create(int flags);
  explicit EventSet(os::UniqueFd news) : completions_processed_(std::move(news)) {}

  /// The number by which the program knows it.
  [[nodiscard]] int fd() const { return completions_processed_.get(); }

  /// As epoll_ctl(2) and epoll_wait(2); -1 with errno on failure.
  [[nodiscard]] int change(int operation, int fd, const epoll_event* event);
  [[nodiscard]] int wait(std::span<epoll_event> out, int timeout_ms);
  /// The program has closed `fd`, which leaves the set.
  void forget(int fd);
  /// The program has closed the set: wakes all waiters.
  void end();

 private:
  struct Member {
    std::uint32_t events{};
    epoll_data_t data{};
    bool is_spent{};  // EPOLLONESHOT, and reported
  };

  [[nodiscard]] int add(int fd, const epoll_event& event);
  [[nodiscard]] std::vector<pollfd> members_to_poll();
  [[nodiscard]] int collect(std::span<const pollfd> polled, std::span<epoll_event> out);
  void tell_waiters();

  /// An eventfd: readable from a change until the last thread then waiting has seen it.
  const os::UniqueFd completions_processed_;
  std::mutex lock_;  // guards all members below
  std::map<int, Member> members_;
  int waiters_{};
  int last_told_{-1};  // descriptors take turns if the output has no room for all
  bool has_ended_{};
};

/// Closes the set with that number; false if there is none.
[[nodiscard]] bool close_set(int number);
/// Removes a descriptor that the program closes from all sets.
void forget_in_sets(int fd);

}  // namespace weft::rsockets
