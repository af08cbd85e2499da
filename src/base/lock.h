#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>

namespace weft {

/// For a loop that waits for another thread, which takes a microsecond unless it has lost its CPU:
/// then it may need this one.
class SpinWait {
 public:
  void pause() {
    constexpr unsigned kSpins = 200;  // policy
    if (spins_ == kSpins) {
      sched_yield();
      return;
    }
    ++spins_;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }

 private:
  unsigned spins_{};
};

/// How concurrent access is prevented (docs/ARCHITECTURE.md, decision 6): a single-threaded driver
/// needs no locks; a multi-threaded one spins, because all critical sections of an engine are short
/// and never block.
enum class LockPolicy : std::uint8_t { None, Spin };

/// A lock that follows the driver's policy. Meets the Lockable requirements.
class PolicyLock {
 public:
  explicit PolicyLock(LockPolicy policy) : policy_(policy) {}
  PolicyLock(const PolicyLock&) = delete;
  PolicyLock& operator=(const PolicyLock&) = delete;

  void lock() {
    if (policy_ == LockPolicy::None) {
      return;
    }
    if (taken_.exchange(true, std::memory_order_acquire)) [[unlikely]] {
      wait();
    }
  }

  bool try_lock() {
    return policy_ == LockPolicy::None || (!taken_.load(std::memory_order_relaxed) &&
                                           !taken_.exchange(true, std::memory_order_acquire));
  }

  void unlock() {
    if (policy_ != LockPolicy::None) {
      taken_.store(false, std::memory_order_release);
    }
  }

 private:
  [[gnu::noinline]] void wait() {
    do {
      SpinWait spin;
      while (taken_.load(std::memory_order_relaxed)) {
        spin.pause();
      }
    } while (taken_.exchange(true, std::memory_order_acquire));
  }

  LockPolicy policy_;
  std::atomic<bool> taken_{false};
};

}  // namespace weft
