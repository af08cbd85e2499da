#pragma once

#include "base/time.h"
#include "host/lane.h"
#include "host/progress_state.h"
#include "station/timer_heap.h"

namespace weft::host {

/// The deadlines of this process's QPs: retry timers, RNR timers. A QP whose deadline only moves
/// into the future, as that of a busy one does, costs one load. Owns its lock; any thread.
class QpTimers {
 public:
  /// `sleeper`: the thread that handles timers, which must not sleep past a new deadline.
  explicit QpTimers(ProcessSleeper& sleeper) : sleeper_(sleeper) {}
  QpTimers(const QpTimers&) = delete;
  QpTimers& operator=(const QpTimers&) = delete;

  /// Call after whatever may have given the QP an earlier deadline.
  [[gnu::always_inline]] void arm(QpDriverState& qp_state) {
    if (qp_state.qp->deadline().since_start().nanoseconds() <
        qp_state.armed_ns.load(std::memory_order_relaxed)) [[unlikely]] {
      arm_earlier(qp_state);
    }
  }

  /// Takes a QP whose entry is due, null if there is none. Its deadline may have moved since: the
  /// caller handles it only if it has passed, and calls arm() again.
  [[nodiscard]] QpDriverState* take_due(Instant now);

  /// The QP is being destroyed.
  void remove(QpDriverState& qp_state) { heap_.remove(qp_state); }

  [[nodiscard]] Instant earliest() const { return heap_.earliest(); }

 private:
  [[gnu::noinline]] void arm_earlier(QpDriverState& qp_state);

  ProcessSleeper& sleeper_;
  station::TimerHeap<QpDriverState> heap_;
};

}  // namespace weft::host
