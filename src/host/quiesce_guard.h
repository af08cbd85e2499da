#pragma once

#include <cstddef>

#include "host/lane_table.h"
#include "host/progress_state.h"

namespace weft::host {

/// While this exists, nobody takes from a ring, serves a wait queue or a timer, or opens a lane.
/// Its maker must hold neither a ring nor a lock of a QP.
class QuiesceGuard {
 public:
  QuiesceGuard(LaneTable& lanes, ProgressState& progress)
      : lanes_(lanes), progress_(progress), lane_count_(lanes.hold_rings()) {
    progress_.maintenance_owner.lock();
  }
  ~QuiesceGuard() {
    progress_.maintenance_owner.unlock();
    lanes_.release_rings(lane_count_);
  }
  QuiesceGuard(const QuiesceGuard&) = delete;
  QuiesceGuard& operator=(const QuiesceGuard&) = delete;

 private:
  LaneTable& lanes_;
  ProgressState& progress_;
  std::size_t lane_count_;
};

}  // namespace weft::host
