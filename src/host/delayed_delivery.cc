#include "host/delayed_delivery.h"

#include <sched.h>

#include "os/clock.h"

namespace weft::host {
namespace {

/// How long the end of a program waits until what it has sent has arrived: longer than the longest
/// delay of a link. A peer that is stopped may miss it. Policy.
constexpr Duration kFlushWaitLimit = Duration::seconds(2);

}  // namespace

bool DelayedDelivery::release_arrived() {
  bool has_released = false;
  const Instant at = os::now();
  while (LaneDelay* const delay = links_.due.take_due(at)) {
    Lane& lane = delay->lane;
    const bool has_one = lane.release(*delay, at);
    if (has_one && lane.is_to_self()) {
      sleeper_.hand_over(lane.number);
    }
    has_released = has_released || has_one;
  }
  return has_released;
}

bool DelayedDelivery::release_blocked(Instant at) {
  bool has_released = false;
  const std::size_t count = lanes_.count();
  for (std::size_t i = 0; i < count; ++i) {
    has_released = lanes_[i]->release_blocked(at) || has_released;
  }
  return has_released;
}

void DelayedDelivery::schedule_release() { sleeper_.notify_deadline(next_arrival()); }

void DelayedDelivery::finish() {
  const Instant deadline = os::now() + kFlushWaitLimit;
  while (links_.has_any() && os::now() < deadline) {
    if (!release_arrived()) {
      release_blocked(os::now());
      sched_yield();
    }
  }
}

}  // namespace weft::host
