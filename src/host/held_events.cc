#include "host/held_events.h"

#include <mutex>

namespace weft::host {

void HeldEvents::hold(CqDriverState& cq, Instant due) {
  cq.event_due_ns.store(due.since_start().nanoseconds());
  if (!cq.is_timed.exchange(true) && heap_.arm(cq, due)) {
    progress_.sleeper.notify_deadline(due);
  }
}

void HeldEvents::deliver_due(Instant at) {
  if (at < heap_.earliest() || !progress_.maintenance_owner.try_lock()) {
    return;
  }
  const std::lock_guard owner{progress_.maintenance_owner, std::adopt_lock};
  while (CqDriverState* const cq = heap_.take_due(at)) {
    cq->is_timed.store(false);
    const Instant due{Duration::nanoseconds(cq->event_due_ns.load())};
    if (due <= at) {
      cq->cq->end_period();
    } else if (!cq->is_timed.exchange(true)) {
      heap_.arm(*cq, due);  // an event was delivered since, and the next one is held
    }
  }
}

}  // namespace weft::host
