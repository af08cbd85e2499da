#pragma once

#include <atomic>
#include <cstdint>

#include "base/time.h"
#include "host/delayed_delivery.h"
#include "host/lane_table.h"
#include "host/live_links.h"
#include "host/packet_sender.h"
#include "host/progress_state.h"
#include "host/qp_timers.h"
#include "os/clock.h"

namespace weft::host {

/// What a thread that looks at rings does besides: moves packets that have arrived, serves wait
/// queues, handles timers. Wait queues and timers are one thread's at a time; any thread.
class Maintenance {
 public:
  struct Parts {
    LaneTable& lanes;
    const LiveLinks& links;
    const std::atomic<std::uint32_t>& waiting_count;  // QPs in the wait queues of all lanes
    DelayedDelivery& delivery;
    PacketSender& sender;
    QpTimers& timers;
    ProgressState& progress;
    os::RecentClock& clock;
  };

  explicit Maintenance(const Parts& parts)
      : lanes_(parts.lanes),
        links_(parts.links),
        waiting_count_(parts.waiting_count),
        delivery_(parts.delivery),
        sender_(parts.sender),
        timers_(parts.timers),
        progress_(parts.progress),
        clock_(parts.clock) {}
  Maintenance(const Maintenance&) = delete;
  Maintenance& operator=(const Maintenance&) = delete;

  /// True if packets are under way or QPs wait. Timers are looked at more rarely. Asked at every
  /// poll, so that it reads the words themselves.
  [[nodiscard]] bool is_needed() const {
    return links_.due.earliest() != Instant::never() ||
           links_.blocked.load(std::memory_order_relaxed) != 0 ||
           waiting_count_.load(std::memory_order_relaxed) != 0;
  }
  void run(bool timers_too);

 private:
  void handle_timers(Instant at);
  [[nodiscard]] bool has_unread_responses(const Lane& lane);

  LaneTable& lanes_;
  const LiveLinks& links_;
  const std::atomic<std::uint32_t>& waiting_count_;
  DelayedDelivery& delivery_;
  PacketSender& sender_;
  QpTimers& timers_;
  ProgressState& progress_;
  os::RecentClock& clock_;
};

}  // namespace weft::host
