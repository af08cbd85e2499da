#include "host/qp_table.h"

#include <utility>

namespace weft::host {
namespace {

[[nodiscard]] CqDriverState* cq_state_of(const hca::CompletionQueue* cq) {
  return cq != nullptr ? static_cast<CqDriverState*>(cq->driver_data) : nullptr;
}

void flush(hca::SharedReceiveQueue& queue, hca::CompletionQueue& cq, Qpn qpn) {
  hca::ReceiveWqe wqe;
  while (queue.take(wqe)) {
    hca::Wc wc;
    wc.wr_id = wqe.wr_id;
    wc.status = hca::WcStatus::WorkRequestFlushed;
    wc.opcode = hca::WcOpcode::Receive;
    wc.qpn = qpn;
    cq.push(wc, false);
  }
}

/// Datagrams come from anywhere: whoever polls for them looks at every lane.
void take_all_lanes(const hca::QpInit& init) {
  const auto take = [](const hca::CompletionQueue* cq) {
    if (cq != nullptr) {
      cq_state_of(cq)->takes_all.store(true, std::memory_order_relaxed);
    }
  };
  take(init.send_cq);
  take(init.recv_cq);
  if (init.scaling.table != nullptr) {
    for (const hca::WorkQueue* const queue : init.scaling.table->queues()) {
      take(&queue->cq());
    }
  }
}

}  // namespace

void QpTable::add_cq(hca::CompletionQueue& cq) {
  auto cq_state = std::make_unique<CqDriverState>();
  cq_state->cq = &cq;
  cq.driver_data = cq_state.get();
  const std::lock_guard guard{lock_};
  cq_states_.emplace(&cq, std::move(cq_state));
}

void QpTable::remove_cq(const hca::CompletionQueue& cq) {
  const std::lock_guard guard{lock_};
  cq_states_.erase(&cq);
}

void QpTable::add_xrc_srq(hca::SharedReceiveQueue& srq, const hca::CompletionQueue& cq) {
  cq_state_of(&cq)->takes_all.store(true, std::memory_order_relaxed);
  const std::lock_guard guard{lock_};
  xrc_srqs_.insert(&srq);
}

void QpTable::remove_xrc_srq(hca::SharedReceiveQueue& srq) {
  const std::lock_guard guard{lock_};
  xrc_srqs_.erase(&srq);
}

QpDriverState& QpTable::add(hca::Qp& qp, std::uint32_t hca, const hca::QpInit& init) {
  auto qp_state = std::make_unique<QpDriverState>();
  QpDriverState& made = *qp_state;
  made.qp = &qp;
  made.hca = hca;
  // XRC: a target has no CQs of its own, and an initiator only the first (annex A14).
  if (init.type != hca::QpType::XrcTarget) {
    const bool has_receive_queue = !hca::is_xrc(init.type) && init.scaling.table == nullptr;
    made.cqs = {cq_state_of(init.send_cq), has_receive_queue ? cq_state_of(init.recv_cq) : nullptr};
  }
  if (init.type == hca::QpType::Ud) {
    take_all_lanes(init);
  }
  const std::lock_guard guard{lock_};
  qp.driver_data = qp_state.get();
  if (init.srq != nullptr && !hca::is_xrc(init.type)) {
    shared_receives_[&qp] = {.queue = init.srq, .cq = init.recv_cq};
  }
  if (init.scaling.table != nullptr) {
    tables_[&qp] = init.scaling.table;
  }
  qp_states_.emplace(&qp, std::move(qp_state));
  return made;
}

void QpTable::remove(const hca::Qp& qp) {
  const std::lock_guard guard{lock_};
  shared_receives_.erase(&qp);
  tables_.erase(&qp);
  qp_states_.erase(&qp);
}

void QpTable::fail_all() {
  hca::QpAttributes error;
  error.state = hca::QpState::Err;
  const std::lock_guard guard{lock_};
  for (const auto& [address, qp_state] : qp_states_) {
    hca::Qp& qp = *qp_state->qp;
    const bool failed = qp.modify(error, hca::QpAttribute::State).has_value();  // not from RESET
    if (!failed) {
      continue;
    }
    // Policy: a QP that fails alone leaves its SRQ's receives to others; here all QPs fail.
    if (const auto shared = shared_receives_.find(address); shared != shared_receives_.end()) {
      flush(*shared->second.queue, *shared->second.cq, qp.number());
    }
    if (const auto table = tables_.find(address); table != tables_.end()) {
      for (hca::WorkQueue* const queue : table->second->queues()) {
        (void)queue->modify(std::nullopt, hca::WorkQueueState::Error);  // not from RESET
      }
    }
    for (hca::SharedReceiveQueue* const srq : xrc_srqs_) {
      if (srq->xrc().domain == qp.xrc_domain()) {
        flush(*srq, *srq->xrc().cq, qp.number());
      }
    }
  }
}

}  // namespace weft::host
