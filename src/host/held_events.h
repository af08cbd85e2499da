#pragma once

#include "base/time.h"
#include "hca/completion_queue.h"
#include "host/lane.h"
#include "host/progress_state.h"
#include "station/timer_heap.h"

namespace weft::host {

/// Completion events of moderated CQs that are held back for more completions (ibv_modify_cq(3)).
/// The progress thread delivers them: an application that polls needs no events. Any thread.
class HeldEvents {
 public:
  explicit HeldEvents(ProgressState& progress) : progress_(progress) {}
  HeldEvents(const HeldEvents&) = delete;
  HeldEvents& operator=(const HeldEvents&) = delete;

  /// Delivers the CQ's event at `due` unless its engine does so before. With the CQ's lock held.
  void hold(CqDriverState& cq, Instant due);

  /// Delivers what is due. On the progress thread.
  void deliver_due(Instant at);

  /// The CQ is being destroyed. With ProgressState::maintenance_owner held.
  void remove(CqDriverState& cq) { heap_.remove(cq); }

  [[nodiscard]] Instant earliest() const { return heap_.earliest(); }

 private:
  ProgressState& progress_;
  station::TimerHeap<CqDriverState> heap_;
};

}  // namespace weft::host
