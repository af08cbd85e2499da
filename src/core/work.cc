#include "core/work.h"

#include <utility>

#include "base/assert.h"

namespace weft::core {

Work::Work(Environment& environment, WorkContext context, unsigned vector,
           std::function<void()> function)
    : environment_(environment),
      context_(context),
      vector_(vector),
      function_(std::move(function)) {}

Work::~Work() { WEFT_ASSERT(is_idle(), "work is cancelled before it is destroyed"); }

bool Work::queue(Duration delay) {
  const std::uint8_t before = state_.fetch_or(kQueued, std::memory_order_acq_rel);
  if ((before & kQueued) != 0) {
    return false;
  }
  if ((before & kRunning) == 0) {  // else the run that is under way posts it, when it ends
    environment_.post(*this, context_, vector_, delay);
  }
  return true;
}

void Work::run() {
  // Whoever waits for the work may destroy it as soon as the state is 0.
  Environment& environment = environment_;
  // Acquires what was written before queue() calls that this run is for.
  state_.exchange(kRunning, std::memory_order_acq_rel);
  function_();
  std::uint8_t running = kRunning;
  if (state_.compare_exchange_strong(running, 0, std::memory_order_acq_rel)) {
    environment.notify();
    return;
  }
  state_.store(kQueued, std::memory_order_release);
  environment.post(*this, context_, vector_, {});
}

bool Work::cancel_and_wait() {
  bool cancelled = false;
  environment_.wait_until(
      [&] {
        if (environment_.revoke(*this)) {
          state_.fetch_and(static_cast<std::uint8_t>(~kQueued), std::memory_order_acq_rel);
          cancelled = true;
        }
        return is_idle();
      },
      Instant::never());
  if (cancelled) {
    environment_.notify();  // others may wait in flush()
  }
  return cancelled;
}

void Work::flush() {
  environment_.wait_until([this] { return is_idle(); }, Instant::never());
}

}  // namespace weft::core
