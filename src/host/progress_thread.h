#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>
#include <thread>

#include "base/time.h"
#include "host/delayed_delivery.h"
#include "host/held_events.h"
#include "host/lane_table.h"
#include "host/maintenance.h"
#include "host/packet_receiver.h"
#include "host/packet_sender.h"
#include "host/progress_state.h"
#include "host/qp_timers.h"
#include "os/clock.h"
#include "os/hold_point.h"
#include "station/spin_budget.h"

namespace weft::host {

/// The progress thread: it looks at the rings that the application does not look at, and naps or
/// sleeps when nothing comes (docs/ARCHITECTURE.md, decision 4). Which thread must wake it, and in
/// which order it announces its sleep and looks once more, is the business of ring::Sleeper. Owns
/// the lock of its start and end; any thread may call start() and stop().
class ProgressThread {
 public:
  struct Parts {
    LaneTable& lanes;
    PacketSender& sender;
    PacketReceiver& receiver;
    Maintenance& maintenance;
    DelayedDelivery& delivery;
    HeldEvents& held_events;
    QpTimers& timers;
    ProgressState& progress;
    os::RecentClock& clock;
  };

  explicit ProgressThread(const Parts& parts) : parts_(parts) {}
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  /// Starts the thread unless it runs.
  void start();
  /// Tells it to end; then stop() waits until it has.
  void request_stop() { stopping_.store(true); }
  void stop();

  /// It was started, and not stopped.
  [[nodiscard]] bool has_thread();
  /// Asks it to stay, from its next round on, where it writes no memory but its stack, until
  /// release_hold(). False: there is no thread.
  [[nodiscard]] bool request_hold();
  [[nodiscard]] bool is_held() const { return hold_point_.is_held(); }
  void release_hold() { hold_point_.release(); }

 private:
  class Rest;

  void run();
  [[nodiscard]] std::size_t poll_lane(Lane& lane, bool spins);
  [[nodiscard]] Instant observe_polls(Instant at);
  template <class Visit>
  void for_each_polled_lane(Visit visit) {
    parts_.progress.sleeper.for_each_polled_lane(
        [&](std::uint32_t number) { visit(*parts_.lanes[number]); });
  }

  // progress_rest.cc
  void rest(Instant at, Instant polled_at, station::SpinBudget& budget);
  void sleep_until_woken();
  void watch_rung_lanes();
  [[nodiscard]] Instant next_deadline() const;

  const Parts parts_;
  std::atomic<bool> stopping_{false};
  os::HoldPoint hold_point_;
  std::mutex lock_;
  std::thread thread_;
};

}  // namespace weft::host
