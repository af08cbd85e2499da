#pragma once

#include "base/time.h"
#include "host/lane_table.h"
#include "host/live_links.h"
#include "host/progress_state.h"

namespace weft::host {

/// Moves packets that take time from the sender's memory into the rings once they have arrived
/// (docs/ARCHITECTURE.md, decision 8). Whoever looks at rings calls it. No state of its own; any
/// thread.
class DelayedDelivery {
 public:
  DelayedDelivery(LaneTable& lanes, LiveLinks& links, ProcessSleeper& sleeper)
      : lanes_(lanes), links_(links), sleeper_(sleeper) {}
  DelayedDelivery(const DelayedDelivery&) = delete;
  DelayedDelivery& operator=(const DelayedDelivery&) = delete;

  /// Puts what has arrived by now into its rings; true if there was any.
  bool release_arrived();
  /// Tries again what has arrived and found no space in its ring; true if any found some.
  bool release_blocked(Instant at);
  [[nodiscard]] bool has_blocked() const {
    return links_.blocked.load(std::memory_order_relaxed) != 0;
  }
  /// When release_arrived() has something to do next.
  [[nodiscard]] Instant next_arrival() const { return links_.due.earliest(); }

  /// Call after packets were delayed: the progress thread must not sleep past their arrival.
  [[gnu::noinline]] void schedule_release();

  /// For a program that ends: waits, not for long, until what it has sent has arrived. An
  /// acknowledgement or a datagram that is under way does not vanish because its sender ends.
  void finish();

 private:
  LaneTable& lanes_;
  LiveLinks& links_;
  ProcessSleeper& sleeper_;
};

}  // namespace weft::host
