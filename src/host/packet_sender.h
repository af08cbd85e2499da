#pragma once

#include <atomic>
#include <cstdint>

#include "base/result.h"
#include "base/time.h"
#include "hca/qp.h"
#include "host/lane_sink.h"
#include "host/lane_table.h"
#include "host/qp_timers.h"
#include "os/clock.h"
#include "station/wait_queue.h"

namespace weft::host {

/// Packets out: lets QPs transmit, and has those wait whose lane has no space or other waiters
/// (docs/ARCHITECTURE.md, decisions 3 and 5). The locks are those of QPs and lanes; any thread,
/// with no lock of a QP or lane held, but where it says otherwise.
class PacketSender {
 public:
  /// Trains that a QP may send in reaction to what it received, before other QPs have their turn;
  /// policy.
  static constexpr unsigned kAnswerBudget = 4;

  struct Parts {
    SendContext context;
    LaneTable& lanes;
    QpTimers& timers;
    std::atomic<std::uint32_t>& waiting_count;  // QPs in the wait queues of all lanes
    os::RecentClock& clock;
  };

  explicit PacketSender(const Parts& parts)
      : context_(parts.context),
        lanes_(parts.lanes),
        timers_(parts.timers),
        waiting_count_(parts.waiting_count),
        clock_(parts.clock) {}
  PacketSender(const PacketSender&) = delete;
  PacketSender& operator=(const PacketSender&) = delete;

  /// Qp::post_send, and sends what may go.
  Result<void> post(QpDriverState& qp_state, const hca::SendWr& wr);
  /// Call after any other call of a QP that may have given it something to send or a new deadline.
  void settle(QpDriverState& qp_state);
  /// Requests came: sends answers, at most `budget` trains.
  void answer(QpDriverState& qp_state, unsigned budget);
  /// Sends whatever the QP has, at most `budget` trains.
  void transmit(QpDriverState& qp_state, Instant at, unsigned budget);

  /// Gives the QPs in all wait queues their turns. True if something was sent.
  bool resume_waiting();
  /// The same with ProgressState::maintenance_owner held.
  bool resume_waiting_as_owner();
  [[nodiscard]] bool has_waiting() const {
    return waiting_count_.load(std::memory_order_relaxed) != 0;
  }

  // The QP is about to be destroyed.

  /// What was posted goes out as far as there is space for it: an HCA would have sent it within
  /// microseconds, whatever the program does next.
  void flush_posted(QpDriverState& qp_state);
  /// Acknowledgements of what it has received, or the peer would take for lost what the program
  /// has. Under a QuiesceGuard.
  void send_pending_responses(QpDriverState& qp_state);

 private:
  /// What came of letting a QP transmit.
  struct Attempt {
    bool has_more{};
    bool has_sent{};
    Lane* blocked{};  // the lane without space
  };
  class QueueDriver;

  [[nodiscard]] static station::Allowed allowed_now(const QpDriverState& qp_state);
  [[nodiscard]] Attempt attempt(QpDriverState& qp_state, Instant at, unsigned budget,
                                station::Allowed allowed);
  [[nodiscard]] static Attempt finish_attempt(QpDriverState& qp_state, LaneSink& sink,
                                              bool has_more);
  [[gnu::noinline]] void wait_for_space(QpDriverState& qp_state, const Attempt& made);
  void join_queue(QpDriverState& qp_state, Lane& wanted, bool wants_space);
  void wake_thread() { context_.progress.sleeper.notify(ring::ThreadEvent::WorkLeft); }

  const SendContext context_;
  LaneTable& lanes_;
  QpTimers& timers_;
  std::atomic<std::uint32_t>& waiting_count_;
  os::RecentClock& clock_;
};

}  // namespace weft::host
