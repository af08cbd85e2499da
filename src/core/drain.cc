#include "core/drain.h"

#include <atomic>

#include "core/device.h"

namespace weft::core {
namespace {

/// A marker behind all requests of a queue.
struct Marker {
  CompletionHandler handler;  // first: found by its address
  std::atomic<bool> is_done{};
};

void marker_done(Cq& cq, const Wc& wc) {
  Environment& environment = cq.device().environment();  // the CQ may go once the marker is done
  // The handler is the marker's first member.
  static_cast<Marker*>(static_cast<void*>(wc.handler()))
      ->is_done.store(true, std::memory_order_release);
  environment.notify();
}

Result<void> to_error(Qp& qp) {
  QpModify modify;
  modify.mask = verbs::QpAttribute::State;
  modify.attributes.state = verbs::QpState::Err;
  return modify_qp(qp, modify);
}

/// Waits for a marker that was posted. A direct CQ is polled here.
void wait_for(const Marker& marker, Cq& cq) {
  constexpr Duration kPause = Duration::milliseconds(1);  // policy: between polls
  Environment& environment = cq.device().environment();
  const auto is_done = [&] { return marker.is_done.load(std::memory_order_acquire); };
  if (cq.poll_context() != PollContext::Direct) {
    environment.wait_until(is_done, Instant::never());
    return;
  }
  do {
    process_cq_direct(cq, -1);
  } while (!environment.wait_until(is_done, environment.now() + kPause));
}

Result<void> check_cq(const Cq* cq) {
  if (cq == nullptr || !cq->is_managed()) {
    return fail(ErrorCode::InvalidArgument,
                "only queues with a managed CQ are drained: a marker's handler is called by it");
  }
  return {};
}

Result<void> drain_sq_by_marker(Qp& qp) {
  if (auto checked = check_cq(qp.send_cq()); !checked) {
    return checked;
  }
  if (auto stopped = to_error(qp); !stopped) {
    return stopped;
  }
  Marker marker{.handler = {.done = marker_done}};
  SendWr wr;
  wr.wr_id = wr_id_of(marker.handler);
  wr.flags = verbs::Send::Signaled;
  wr.opcode = qp.type() == verbs::QpType::Ud ? verbs::WrOpcode::Send : verbs::WrOpcode::RdmaWrite;
  if (auto posted = post_send(qp, wr); !posted) {
    return posted;
  }
  wait_for(marker, *qp.send_cq());
  return {};
}

Result<void> drain_rq_by_marker(Qp& qp) {
  if (auto checked = check_cq(qp.recv_cq()); !checked) {
    return checked;
  }
  if (auto stopped = to_error(qp); !stopped) {
    return stopped;
  }
  Marker marker{.handler = {.done = marker_done}};
  RecvWr wr;
  wr.wr_id = wr_id_of(marker.handler);
  if (auto posted = post_recv(qp, wr); !posted) {
    return posted;
  }
  wait_for(marker, *qp.recv_cq());
  return {};
}

}  // namespace

bool is_drain_marker(const CompletionHandler& handler) { return handler.done == marker_done; }

Result<void> drain_sq(Qp& qp) {
  const auto own = qp.device().operations().drain_sq;
  return own != nullptr ? own(qp) : drain_sq_by_marker(qp);
}

Result<void> drain_rq(Qp& qp) {
  if (qp.srq() != nullptr) {
    return fail(ErrorCode::InvalidArgument, "the QP receives from an SRQ, which others use, too");
  }
  const auto own = qp.device().operations().drain_rq;
  return own != nullptr ? own(qp) : drain_rq_by_marker(qp);
}

Result<void> drain_qp(Qp& qp) {
  if (auto drained = drain_sq(qp); !drained || qp.srq() != nullptr) {
    return drained;
  }
  return drain_rq(qp);
}

}  // namespace weft::core
