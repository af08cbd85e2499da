#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "core/environment.h"

namespace weft::core {

/// A piece of deferred work that is queued again and again, as the kernel's work_struct: queueing
/// it while it waits does nothing; queueing it while it runs runs it once more, afterwards; it
/// never runs twice at the same time. Any thread.
class Work final : private Task {
 public:
  Work(Environment& environment, WorkContext context, unsigned vector,
       std::function<void()> function);
  /// It is neither queued nor running: cancel_and_wait() comes first.
  ~Work();

  /// False: it was queued already, and nothing changed.
  bool queue(Duration delay = {});

  /// After it the work neither waits nor runs, unless somebody queues it again. True: it waited and
  /// did not run. Not from inside the work itself.
  bool cancel_and_wait();

  /// Waits until it neither waits nor runs.
  void flush();

  [[nodiscard]] bool is_idle() const { return state_.load(std::memory_order_acquire) == 0; }

 private:
  void run() override;

  // Queued and not running: the environment has it. Queued and running: it is posted again when the
  // run ends.
  static constexpr std::uint8_t kQueued = 1;
  static constexpr std::uint8_t kRunning = 2;

  Environment& environment_;
  const WorkContext context_;
  const unsigned vector_;
  std::function<void()> function_;
  std::atomic<std::uint8_t> state_{0};
};

/// A lock that may be held across callbacks: who does not get it sleeps. Meets the Lockable
/// requirements. Not recursive.
class SleepLock {
 public:
  explicit SleepLock(Environment& environment) : environment_(environment) {}
  SleepLock(const SleepLock&) = delete;
  SleepLock& operator=(const SleepLock&) = delete;

  void lock() {
    if (!try_lock()) {
      environment_.wait_until([this] { return try_lock(); }, Instant::never());
    }
  }
  bool try_lock() { return !taken_.exchange(true, std::memory_order_acquire); }
  void unlock() {
    taken_.store(false, std::memory_order_release);
    environment_.notify();
  }

 private:
  Environment& environment_;
  std::atomic<bool> taken_{false};
};

}  // namespace weft::core
