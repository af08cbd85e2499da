#include "host/maintenance.h"

#include <mutex>

#include "base/live_bug.h"

namespace weft::host {
namespace {

/// How often a ring is tried that another thread owns; one look at a ring takes less. Policy.
constexpr int kRingAttempts = 1'000;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

void Maintenance::run(bool timers_too) {
  if (delivery_.next_arrival() != Instant::never()) [[unlikely]] {
    delivery_.release_arrived();
  }
  if (delivery_.has_blocked()) [[unlikely]] {
    delivery_.release_blocked(os::now());
  }
  const bool has_waiting = sender_.has_waiting();
  const Instant earliest = timers_too ? timers_.earliest() : Instant::never();
  if (!has_waiting && (earliest == Instant::never() || clock_.read() < earliest)) {
    return;
  }
  if (progress_.maintenance_owner.try_lock()) {
    const std::lock_guard owner{progress_.maintenance_owner, std::adopt_lock};
    sender_.resume_waiting_as_owner();
    handle_timers(clock_.read());
  }
}

/// Whether an answer of the lane's peer lies in a ring of the pair, or another of our threads is
/// taking one right now. A thread that owns a ring for longer than a look is at work with an
/// answer, or was stopped at it.
bool Maintenance::has_unread_responses(const Lane& lane) {
  if (planted(LiveBug::UnreadResponseCounted)) {
    return false;
  }
  const std::uint32_t first = lane.number - lane.index;
  for (std::uint32_t index = 0; index < kLanesPerPair; ++index) {
    Lane::In& responses = lanes_[first + index]->in(hca::Flow::Response);
    std::unique_lock owner{responses.owner, std::defer_lock};
    for (int tries = 0; !owner.try_lock(); ++tries) {
      if (tries == kRingAttempts) {
        return true;
      }
      pause();
    }
    if (lanes_[first + index]->state() == LaneState::Open &&
        responses.ring.look().state == ring::Consumer<>::State::Record) {
      return true;
    }
  }
  return false;
}

/// A peer without a CPU is not a lost packet, nor is an answer that we were too slow to read. An
/// expiry counts only if the peer has read all that was sent to it and has still not answered, or
/// is gone, or links lose answers (docs/ARCHITECTURE.md, decision 7). The peer reports what it has
/// read after its answers are in our rings, so that we ask in this order.
void Maintenance::handle_timers(Instant at) {
  while (QpDriverState* const qp_state = timers_.take_due(at)) {
    if (qp_state->qp->deadline() <= at) {
      static_cast<void>(planted_late(LiveBug::UnreadResponseCounted));
      Lane* const lane = qp_state->lane.load(std::memory_order_acquire);
      if (lane == nullptr || planted(LiveBug::StoppedPeerCounted) ||
          (lane->may_have_lost(*qp_state) && !has_unread_responses(*lane))) {
        qp_state->qp->report_loss();
      }
      qp_state->qp->handle_timeout(at);
      sender_.transmit(*qp_state, at, PacketSender::kAnswerBudget);
    }
    timers_.arm(*qp_state);
  }
}

}  // namespace weft::host
