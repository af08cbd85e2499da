#include <fmt/format.h>

#include "hca/invariant.h"
#include "hca/planted_bug.h"
#include "hca/rc/requester.h"

namespace weft::hca {

void RcRequester::start() {
  next_psn_ = core_.attributes.sq_psn;
  unacknowledged_ = next_psn_;
  next_new_ = cursor_ = core_.send_queue.head();
  cursor_packet_ = 0;
  reads_outstanding_ = 0;
  credits_.start(is_xrc(core_.type));  // an XRC responder receives into SRQs
  retries_left_ = core_.attributes.retry_count;
  rnr_retries_left_ = core_.attributes.rnr_retry;
  loss_known_ = rewound_ = stalled_ = drained_reported_ = places_ = false;
  choice_ = {};
  retry_at_ = rnr_until_ = Instant::never();
}

void RcRequester::stop() {
  retry_at_ = rnr_until_ = Instant::never();
  next_new_ = cursor_ = core_.send_queue.tail();
  cursor_packet_ = 0;
  unacknowledged_ = next_psn_;
  reads_outstanding_ = 0;
}

void RcRequester::arm_retry_timer(Instant now) {
  // IBTA vol 1 §9.7.6.1.3 allows one to four times the attribute's time; this is one. 0 disables
  // the timer.
  if (planted(PlantedBug::RetryTimerNotArmed)) {
    return;
  }
  retry_at_ = core_.attributes.timeout.is_infinite()
                  ? Instant::never()
                  : now + core_.time_scale.apply(core_.attributes.timeout.duration());
}

/// Continues sending from `psn`. WQEs before it are done; READs resume where their data ends.
void RcRequester::rewind_to(Psn psn) {
  for (cursor_ = core_.send_queue.head(); cursor_ < next_new_; ++cursor_) {
    const SendWqe& wqe = core_.send_queue.at(cursor_);
    const std::int32_t offset = distance(wqe.first_psn, psn);
    if (wqe.packet_count != 0 && offset < static_cast<std::int32_t>(wqe.packet_count)) {
      const bool is_read = wqe.opcode == WrOpcode::RdmaRead;
      cursor_packet_ = offset > 0 && !is_read ? static_cast<std::uint32_t>(offset) : 0;
      return;
    }
  }
  cursor_packet_ = 0;
}

/// The primary path's retries are used up; the alternate path has its own (§17.2.8).
bool RcRequester::start_migration() {
  if (core_.attributes.migration != MigrationState::Armed) {
    return false;
  }
  if (!core_.may_migrate()) {
    core_.raise(AsyncEventType::PathMigrationError);
    return false;
  }
  core_.request_migration();
  return true;
}

/// One transport retry (§9.7.6.1). False if they are used up: the QP is then failing.
bool RcRequester::retry_from(Psn psn, Instant now, std::string_view why) {
  if (rewound_) {
    return true;  // already retrying: what arrives meanwhile was sent before it
  }
  if (retries_left_ == 0 && !start_migration()) {
    fail_head(WcStatus::RetryExceeded, why);
    return false;
  }
  if (retries_left_ != 0 && !planted(PlantedBug::UnlimitedRetries)) {
    --retries_left_;
  }
  rewound_ = true;
  rewind_to(planted(PlantedBug::RewindTooShort) ? psn + 1 : psn);
  arm_retry_timer(now);
  return true;
}

void RcRequester::handle_timeout(Instant now) {
  if (is_failing()) {
    return;
  }
  if (rnr_until_ <= now) {
    rnr_until_ = Instant::never();
    rewound_ = false;
    if (outstanding_packets() != 0) {
      arm_retry_timer(now);
    }
  }
  if (retry_at_ > now) {
    return;
  }
  if (outstanding_packets() == 0) {
    retry_at_ = Instant::never();
    return;
  }
  if (loss_model_ == LossModel::Reliable && !loss_known_) {
    arm_retry_timer(
        now);  // nothing was lost, the peer is only slow (docs/ARCHITECTURE.md, decision 7)
    return;
  }
  loss_known_ = false;
  rewound_ = false;
  retry_from(
      unacknowledged_, now,
      "no acknowledgement within the timeout, and retries are used up: the peer is gone, not in "
      "RTR, unreachable, or has another QP number");
}

void RcRequester::fail_head(WcStatus status, std::string_view reason) {
  core_.explain([&] {
    return fmt::format("RC QP {:#x}: send completes in error: {}", core_.number.value(), reason);
  });
  if (!core_.send_queue.is_empty()) {
    core_.complete_head(status);
  }
  core_.fail(Half::Requester, reason);
}

void RcRequester::drain() {
  drained_reported_ = false;
  core_.attributes.sq_draining = true;
  notify_if_drained();
}

void RcRequester::report_drained() {
  if (drained_reported_ || cursor_ < next_new_ || outstanding_packets() != 0) {
    return;
  }
  drained_reported_ = true;
  core_.attributes.sq_draining = false;
  if (core_.attributes.enable_sqd_async_notify) {
    core_.raise(AsyncEventType::SqDrained);
  }
}

void RcRequester::check_invariants() const {
  const SendQueue& queue = core_.send_queue;
  invariant(queue.head() <= next_new_ && next_new_ <= queue.tail(),
            "queue.head() <= next_new_ && next_new_ <= queue.tail()");
  invariant(queue.head() <= cursor_ && cursor_ <= next_new_,
            "queue.head() <= cursor_ && cursor_ <= next_new_");
  invariant(distance(unacknowledged_, next_psn_) >= 0, "distance(unacknowledged_, next_psn_) >= 0");
  const bool running = core_.state() == QpState::Rts || core_.state() == QpState::Sqd;
  invariant(running || (retry_at_ == Instant::never() && rnr_until_ == Instant::never()),
            "running || (retry_at_ == Instant::never() && rnr_until_ == Instant::never())");
}

}  // namespace weft::hca
