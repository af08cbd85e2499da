// Completion events that wait for more completions, and when they have waited for long enough. The
// progress thread sees to it: an application that polls needs no events.

#include <mutex>

#include "host/process_impl.h"
#include "os/clock.h"

namespace weft::host {

void HcaEventRelay::completion_event_held(hca::CompletionQueue& cq, Duration period) {
  process_.hold_event(*static_cast<CqDriverState*>(cq.driver_data), os::now() + period);
}

/// With the CQ's lock.
void Process::Impl::hold_event(CqDriverState& cq, Instant due) {
  cq.event_due_ns.store(due.since_start().nanoseconds());
  if (!cq.is_timed.exchange(true) && held_events.arm(cq, due)) {
    progress.sleeper.notify_deadline(due);
  }
}

void Process::Impl::deliver_held_events(Instant at) {
  if (at < held_events.earliest() || !progress.maintenance_owner.try_lock()) {
    return;
  }
  const std::lock_guard owner{progress.maintenance_owner, std::adopt_lock};
  while (CqDriverState* const cq = held_events.take_due(at)) {
    cq->is_timed.store(false);
    const Instant due{Duration::nanoseconds(cq->event_due_ns.load())};
    if (due <= at) {
      cq->cq->end_period();
    } else if (!cq->is_timed.exchange(true)) {
      held_events.arm(*cq, due);  // an event went out since, and the next one waits
    }
  }
}

}  // namespace weft::host
