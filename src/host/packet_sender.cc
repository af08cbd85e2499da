#include "host/packet_sender.h"

#include <mutex>
#include <thread>

#include "base/live_bug.h"

namespace weft::host {
namespace {

constexpr unsigned kPostBudget = 64;   // trains; policy
constexpr unsigned kResumeBudget = 4;  // trains a QP before the next one has its turn; policy

/// Of QPs that are destroyed. How long a datagram waits for its lane, and how many turns the
/// requests of a connected QP get; policy.
constexpr Duration kFlushWaitLimit = Duration::seconds(1);
constexpr unsigned kFlushTurns = 256;

}  // namespace

/// What a QP may send on its lane: while others wait for it, nothing but acknowledgements. The rest
/// joins their queue, or the QP that is asked most often would take all the space.
station::Allowed PacketSender::allowed_now(const QpDriverState& qp_state) {
  const Lane* const lane = qp_state.lane.load(std::memory_order_acquire);
  return lane != nullptr && lane->queue.has_waiters() && lane->state() == LaneState::Open
             ? station::Allowed::OnlyAcknowledgements
             : station::Allowed::Everything;
}

PacketSender::Attempt PacketSender::finish_attempt(QpDriverState& qp_state, LaneSink& sink,
                                                   bool has_more) {
  sink.release_lane();
  if (sink.has_loss()) {
    qp_state.qp->report_loss();
  }
  return {.has_more = has_more, .has_sent = sink.has_sent(), .blocked = sink.blocked()};
}

PacketSender::Attempt PacketSender::attempt(QpDriverState& qp_state, Instant at, unsigned budget,
                                            station::Allowed allowed) {
  LaneSink sink{context_, qp_state, allowed};
  const bool has_more = qp_state.qp->transmit(sink, at, budget);
  return finish_attempt(qp_state, sink, has_more);
}

void PacketSender::wait_for_space(QpDriverState& qp_state, const Attempt& made) {
  Lane* const lane = made.blocked != nullptr ? made.blocked : qp_state.lane.load();
  join_queue(qp_state, lane != nullptr ? *lane : lanes_.null_lane(), made.blocked != nullptr);
}

/// Those who wait for a dead lane wait in the queue of the null lane, which is served as any other.
void PacketSender::join_queue(QpDriverState& qp_state, Lane& wanted, bool wants_space) {
  Lane& lane = wanted.state() != LaneState::Dead ? wanted : lanes_.null_lane();
  lane.queue.join(qp_state, [&] {
    if (wants_space) {
      lane.request_space();
    }
  });
}

void PacketSender::answer(QpDriverState& qp_state, unsigned budget) {
  if (!qp_state.qp->has_responses()) {
    return;
  }
  LaneSink sink{context_, qp_state, allowed_now(qp_state)};
  const bool has_more = qp_state.qp->answer(sink, budget);
  const Attempt made = finish_attempt(qp_state, sink, has_more);
  if (made.has_more) {
    wait_for_space(qp_state, made);
  }
}

void PacketSender::transmit(QpDriverState& qp_state, Instant at, unsigned budget) {
  if (!qp_state.qp->needs_transmit()) {
    return;
  }
  const Attempt made = attempt(qp_state, at, budget, allowed_now(qp_state));
  if (made.has_more) {
    wait_for_space(qp_state, made);
  }
}

[[gnu::flatten]] Result<void> PacketSender::post(QpDriverState& qp_state, const hca::SendWr& wr) {
  LaneSink sink{context_, qp_state, allowed_now(qp_state)};
  const auto has_more = qp_state.qp->post_and_transmit(wr, sink, clock_.read(), kPostBudget);
  if (!has_more) {
    return std::unexpected(has_more.error());
  }
  const Attempt made = finish_attempt(qp_state, sink, *has_more);
  if (made.has_more) {
    wait_for_space(qp_state, made);
    wake_thread();
  }
  timers_.arm(qp_state);
  return {};
}

void PacketSender::settle(QpDriverState& qp_state) {
  if (qp_state.qp->needs_transmit()) {
    transmit(qp_state, clock_.read(), kPostBudget);
    if (has_waiting()) {
      wake_thread();
    }
  }
  timers_.arm(qp_state);
}

/// A QP that stands in a wait queue is served by the progress thread, which may not have a CPU yet.
/// What finds no space is left behind, but for datagrams, whose lane may still be opening: programs
/// that send them do not ask for their completion (mckey).
void PacketSender::flush_posted(QpDriverState& qp_state) {
  const hca::Qp& qp = *qp_state.qp;
  if (qp.type() != hca::QpType::Ud) {
    for (unsigned turn = 0; turn < kFlushTurns && qp.needs_transmit(); ++turn) {
      if (!resume_waiting()) {
        return;
      }
    }
    return;
  }
  const Instant until = os::now() + kFlushWaitLimit;
  while (qp.needs_transmit() && os::now() < until) {
    resume_waiting();
    std::this_thread::yield();
  }
}

void PacketSender::send_pending_responses(QpDriverState& qp_state) {
  Attempt made{.has_more = true, .has_sent = true, .blocked = nullptr};
  while (made.has_more && made.has_sent && made.blocked == nullptr) {
    made = attempt(qp_state, clock_.read(), kPostBudget, station::Allowed::OnlyResponses);
  }
}

/// Lets the QPs of one lane's wait queue send, in their turns.
class PacketSender::QueueDriver {
 public:
  QueueDriver(PacketSender& sender, Lane& lane, Instant at)
      : sender_(sender), lane_(lane), at_(at) {}

  [[nodiscard]] station::Turn take_turn(station::Waiter& waiter, station::Allowed allowed) {
    using Room = station::Turn::Room;
    QpDriverState& qp_state = qp_state_of(waiter);
    const Attempt made = sender_.attempt(qp_state, at_, kResumeBudget, allowed);
    sender_.timers_.arm(qp_state);
    blocked_ = made.blocked;
    return {.has_more = made.has_more,
            .has_sent = made.has_sent,
            .room = made.blocked == nullptr  ? Room::Found
                    : made.blocked == &lane_ ? Room::NoneHere
                                             : Room::NoneElsewhere};
  }
  void want_room() { lane_.request_space(); }
  void wait_elsewhere(station::Waiter& waiter) {
    sender_.join_queue(qp_state_of(waiter), *blocked_, true);
  }
  void wait_again_if_needed(station::Waiter& waiter) {
    if (qp_state_of(waiter).qp->needs_transmit()) {
      sender_.join_queue(qp_state_of(waiter), lane_, false);
    }
  }

 private:
  [[nodiscard]] static QpDriverState& qp_state_of(station::Waiter& waiter) {
    return static_cast<QpDriverState&>(waiter);
  }

  PacketSender& sender_;
  Lane& lane_;
  const Instant at_;
  Lane* blocked_{};  // of the last turn
};

bool PacketSender::resume_waiting() {
  const std::lock_guard owner{context_.progress.maintenance_owner};
  return resume_waiting_as_owner();
}

bool PacketSender::resume_waiting_as_owner() {
  if (!has_waiting()) {
    return false;
  }
  bool has_sent = false;
  const Instant at = os::now();
  const std::size_t count = lanes_.count();
  for (std::size_t i = 0; i < count; ++i) {
    if (lanes_[i]->queue.has_waiters()) {
      QueueDriver driver{*this, *lanes_[i], at};
      has_sent = lanes_[i]->queue.serve(driver) || has_sent;
    }
  }
  return has_sent;
}

}  // namespace weft::host
