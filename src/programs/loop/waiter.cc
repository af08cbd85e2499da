#include "programs/loop/waiter.h"

#include "os/clock.h"
#include "os/futex.h"

namespace weft::programs {

void Waiter::wake() {
  if (state_.exchange(Woken, std::memory_order_acq_rel) == Asleep) {
    os::futex_wake(state_);  // of which the kernel takes the address alone
  }
}

bool Waiter::wait_for(Duration longest) {
  const Instant deadline = os::now() + longest;
  std::uint32_t found = Idle;
  state_.compare_exchange_strong(found, Asleep, std::memory_order_acq_rel);
  while (state_.load(std::memory_order_acquire) != Woken) {
    const Duration left = deadline - os::now();
    if (left <= Duration{}) {
      return false;
    }
    os::futex_wait(state_, Asleep, left);
  }
  return true;
}

}  // namespace weft::programs
