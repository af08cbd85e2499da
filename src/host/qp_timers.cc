#include "host/qp_timers.h"

namespace weft::host {

QpDriverState* QpTimers::take_due(Instant now) {
  QpDriverState* const qp_state = heap_.take_due(now);
  if (qp_state != nullptr) {
    qp_state->armed_ns.store(QpDriverState::kNotArmed, std::memory_order_relaxed);
  }
  return qp_state;
}

void QpTimers::arm_earlier(QpDriverState& qp_state) {
  const Instant deadline = qp_state.qp->deadline();
  const std::int64_t deadline_ns = deadline.since_start().nanoseconds();
  const std::int64_t armed_ns = qp_state.armed_ns.load(std::memory_order_relaxed);
  if (deadline_ns >= armed_ns) {
    return;  // it moved meanwhile
  }
  qp_state.armed_ns.store(deadline_ns, std::memory_order_relaxed);
  if (armed_ns != QpDriverState::kNotArmed) {
    heap_.remove(qp_state);
  }
  if (heap_.arm(qp_state, deadline)) {
    sleeper_.notify_deadline(deadline);
  }
}

}  // namespace weft::host
