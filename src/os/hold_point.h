#pragma once

#include <atomic>
#include <cstdint>
#include <ctime>

namespace weft::os {

/// A place in the loop of a thread where another thread can hold it: while it is held, it writes no
/// memory but its stack. One thread holds at a time.
class HoldPoint {
 public:
  /// The thread, each time round: stays while it is held.
  void pass() {
    if (state_.load(std::memory_order_relaxed) != State::Free) [[unlikely]] {
      stay();
    }
  }

  /// The holder asks for it, and wakes the thread by whatever that waits for.
  void request() { state_.store(State::Wanted, std::memory_order_relaxed); }
  /// It is here; what it has written is seen.
  [[nodiscard]] bool is_held() const {
    return state_.load(std::memory_order_acquire) == State::Held;
  }
  /// It goes on, or need not come any more.
  void release() { state_.store(State::Free, std::memory_order_release); }

 private:
  enum class State : std::uint8_t { Free, Wanted, Held };

  /// Without a futex: the memory that this lies in may be replaced meanwhile, and who waits for a
  /// word would be found under its new name no more.
  void stay() {
    constexpr timespec kPause{.tv_sec = 0, .tv_nsec = 50'000};
    State wanted = State::Wanted;
    if (!state_.compare_exchange_strong(wanted, State::Held, std::memory_order_acq_rel)) {
      return;
    }
    while (state_.load(std::memory_order_acquire) == State::Held) {
      nanosleep(&kPause, nullptr);
    }
  }

  std::atomic<State> state_{State::Free};
};

}  // namespace weft::os
