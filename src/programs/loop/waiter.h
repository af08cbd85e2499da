#pragma once

#include <atomic>
#include <cstdint>

#include "base/time.h"

namespace weft::programs {

/// A thread that waits for what another one tells it once. It sleeps at once: std::binary_semaphore
/// gives the CPU away some times before, and stays runnable; where a dozen threads wait so, hardly
/// anybody else gets it.
class Waiter {
 public:
  Waiter() = default;
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  /// The one that waits goes on, and may end it: nothing of it is touched afterwards.
  void wake();
  /// False: nobody has woken it in that time, and it may be waited for again.
  [[nodiscard]] bool wait_for(Duration longest);

 private:
  enum State : std::uint32_t { Idle, Asleep, Woken };

  std::atomic<std::uint32_t> state_{Idle};
};

}  // namespace weft::programs
