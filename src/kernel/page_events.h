#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "base/result.h"
#include "os/unique_fd.h"
#include "os/user_faults.h"

namespace weft::kernel {

/// Serves the page faults of watched memory with zeros, and tells of its changes, by two threads:
/// who is told may wait for a thread that waits for a page. Any thread.
class PageEvents {
 public:
  /// Of a change; by one thread, one after the other, without locks.
  using Told = std::function<void(const os::MemoryMessage&)>;

  /// PermissionDenied, NotSupported: as os::UserFaults::open().
  [[nodiscard]] static Result<std::unique_ptr<PageEvents>> start(os::FaultsOf whose, Told told);
  /// Nothing is watched any more.
  ~PageEvents();
  PageEvents(const PageEvents&) = delete;
  PageEvents& operator=(const PageEvents&) = delete;

  Result<void> watch(std::uint64_t start, std::uint64_t bytes) {
    return faults_.watch(start, bytes);
  }
  void unwatch(std::uint64_t start, std::uint64_t bytes) { faults_.unwatch(start, bytes); }
  /// Fills pages that are not there. False: not all are watched, or memory changes without end.
  [[nodiscard]] bool fill(std::uint64_t start, std::uint64_t bytes);

  /// Waits until all changes that threads have made have been told of: not from a thread that
  /// Told may wait for. False: they have not after 10 s.
  [[nodiscard]] bool settle();

  /// Faults that threads have waited in, each counted before it is served.
  [[nodiscard]] std::uint64_t faults() const { return seen_.load(std::memory_order_relaxed); }

  /// Changes that are kept while others are told of; beyond it two become one of all between them.
  static constexpr std::size_t kMostPending = 1'024;  // policy

 private:
  PageEvents(os::UserFaults faults, os::UniqueFd stop, Told told);

  /// Pages that threads wait for and that cannot be filled before a change was read.
  struct Unserved {
    std::array<std::uint64_t, 256> pages;  // policy
    std::size_t count{};
  };
  // None of these allocates or frees memory, which may be memory that is watched.
  void read_messages();
  void read_all(Unserved& unserved);
  void serve(Unserved& unserved);
  void keep(const os::MemoryMessage& change);

  void tell_changes();

  const os::UserFaults faults_;
  const os::UniqueFd stop_;  // readable when the threads end
  const Told told_;
  std::atomic<std::uint64_t> seen_{};
  std::mutex mutex_;  // of what follows
  std::condition_variable wakes_;
  std::array<os::MemoryMessage, kMostPending> pending_;  // a ring
  std::size_t first_pending_{};
  std::size_t pending_count_{};
  bool is_reading_{};  // messages that are not in pending_ yet
  bool is_telling_{};
  bool stops_{};
  std::thread reader_;
  std::thread teller_;
};

}  // namespace weft::kernel
