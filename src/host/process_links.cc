// Packets under way: when they arrive, and what a process does about them before it ends
// (docs/ARCHITECTURE.md, decision 8).

#include <sched.h>

#include "host/process_impl.h"
#include "os/clock.h"

namespace weft::host {
namespace {

/// Policy: how long the end of a program waits for what it has sent to arrive. More than the
/// longest delay of a link; a peer that is stopped may miss it.
constexpr Duration kFlushWaitLimit = Duration::seconds(2);

}  // namespace

bool Process::Impl::release_arrived() {
  bool has_released = false;
  const Instant at = os::now();
  while (LaneDelay* const delay = links.due.take_due(at)) {
    Lane& lane = delay->lane;
    const bool has_one = lane.release(*delay, at);
    if (has_one && lane.is_to_self()) {
      hand_over(lane);
    }
    has_released = has_released || has_one;
  }
  return has_released;
}

bool Process::Impl::release_blocked(Instant at) {
  bool has_released = false;
  const std::size_t count = lanes.count();
  for (std::size_t i = 0; i < count; ++i) {
    has_released = lanes[i]->release_blocked(at) || has_released;
  }
  return has_released;
}

void Process::Impl::schedule_release() { progress.sleeper.notify_deadline(links.due.earliest()); }

/// An acknowledgement or a datagram that is under way does not vanish because its sender ends.
void Process::Impl::finish_sending() {
  const Instant deadline = os::now() + kFlushWaitLimit;
  while (links.has_any() && os::now() < deadline) {
    if (!release_arrived()) {
      release_blocked(os::now());
      sched_yield();
    }
  }
}

}  // namespace weft::host
