// What whoever looks at rings keeps up besides: packets under way, wait queues and timers.

#include <mutex>

#include "base/live_bug.h"
#include "host/process_impl.h"
#include "os/clock.h"

namespace weft::host {
namespace {

/// Before a ring that another thread has is taken for one with news; a look takes less.
constexpr int kRingAttempts = 1'000;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

/// Whoever looks at rings serves wait queues and timers, too, and lets arrive what is under way.
void Process::Impl::run_maintenance(bool timers_too) {
  if (links.due.earliest() != Instant::never()) [[unlikely]] {
    release_arrived();
  }
  if (links.blocked.load(std::memory_order_relaxed) != 0) [[unlikely]] {
    release_blocked(os::now());
  }
  const bool has_waiting = waiting_count.load(std::memory_order_relaxed) != 0;
  const Instant earliest = timers_too ? timers.earliest() : Instant::never();
  if (!has_waiting && (earliest == Instant::never() || clock.read() < earliest)) {
    return;
  }
  if (progress.maintenance_owner.try_lock()) {
    const std::lock_guard owner{progress.maintenance_owner, std::adopt_lock};
    resume_waiting_as_owner();
    handle_timers(clock.read());
  }
}

/// Whether something lies in the rings of the peer's answers, or another of our threads is just
/// taking it. Who has a ring longer than a look takes is at work with it, or was stopped at it.
bool Process::Impl::answers_wait(const Lane& lane) {
  if (planted(LiveBug::UnreadResponseCounted)) {
    return false;
  }
  const std::uint32_t first = lane.number - lane.index;
  for (std::uint32_t index = 0; index < kLanesPerPair; ++index) {
    Lane::In& responses = lanes[first + index]->in(hca::Flow::Response);
    std::unique_lock owner{responses.owner, std::defer_lock};
    for (int tries = 0; !owner.try_lock(); ++tries) {
      if (tries == kRingAttempts) {
        return true;
      }
      pause();
    }
    if (lanes[first + index]->state() == LaneState::Open &&
        responses.ring.look().state == ring::Consumer<>::State::Record) {
      return true;
    }
  }
  return false;
}

/// A descheduled peer is not a lost packet, nor is an answer that we were too slow to read: an
/// expiry counts only once the peer has read all that was sent to it, and still has not answered,
/// or is gone, or links lose answers (docs/ARCHITECTURE.md, decision 7). It says so after its
/// answers are in our rings, so that we ask in this order.
void Process::Impl::handle_timers(Instant at) {
  while (QpDriverState* const qp_state = timers.take_due(at)) {
    qp_state->armed_ns.store(QpDriverState::kNotArmed, std::memory_order_relaxed);
    if (qp_state->qp->deadline() <= at) {
      static_cast<void>(planted_late(LiveBug::UnreadResponseCounted));
      Lane* const lane = qp_state->lane.load(std::memory_order_acquire);
      if (lane == nullptr || planted(LiveBug::StoppedPeerCounted) ||
          (lane->may_have_lost(*qp_state) && !answers_wait(*lane))) {
        qp_state->qp->report_loss();
      }
      qp_state->qp->handle_timeout(at);
      transmit_qp(*qp_state, at, kAnswerBudget);
    }
    arm(*qp_state);
  }
}

}  // namespace weft::host
