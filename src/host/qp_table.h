#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "hca/hca.h"
#include "host/lane.h"

namespace weft::host {

/// The driver state of each CQ and QP while they exist, and the SRQs from which QPs receive. With a
/// QP or CQ at hand, `driver_data` leads to its state without this table. Any thread; its lock
/// precedes those of QPs.
class QpTable {
 public:
  QpTable() = default;
  QpTable(const QpTable&) = delete;
  QpTable& operator=(const QpTable&) = delete;

  /// Creates the driver state of a new CQ.
  void add_cq(hca::CompletionQueue& cq);
  /// `cq` has been destroyed.
  void remove_cq(const hca::CompletionQueue& cq);

  /// Registers an XRC SRQ that completes in `cq`; its messages may arrive on any lane.
  void add_xrc_srq(hca::SharedReceiveQueue& srq, const hca::CompletionQueue& cq);
  void remove_xrc_srq(hca::SharedReceiveQueue& srq);

  /// Creates the driver state of a new QP.
  QpDriverState& add(hca::Qp& qp, std::uint32_t hca, const hca::QpInit& init);
  /// `qp` has been destroyed.
  void remove(const hca::Qp& qp);

  /// Calls `visit(hca::Qp&, QpDriverState&)` for all QPs, with the lock held.
  template <class Visit>
  void for_each(Visit visit) {
    const std::lock_guard guard{lock_};
    for (const auto& [qp, qp_state] : qp_states_) {
      visit(*qp_state->qp, *qp_state);
    }
  }

  /// Moves every QP to the error state, as on an HCA with a local catastrophic error (IBTA vol 1
  /// §10.10.2.3): posted work requests complete as flushed, including receives of SRQs. No QP may
  /// be destroyed meanwhile.
  void fail_all();

 private:
  struct SharedReceives {
    hca::SharedReceiveQueue* queue{};
    hca::CompletionQueue* cq{};
  };

  std::mutex lock_;
  std::unordered_map<const hca::Qp*, std::unique_ptr<QpDriverState>> qp_states_;
  std::unordered_map<const hca::Qp*, SharedReceives> shared_receives_;  // of QPs with an SRQ
  std::unordered_map<const hca::Qp*, hca::IndirectionTable*> tables_;   // of QPs that have one
  std::unordered_set<hca::SharedReceiveQueue*> xrc_srqs_;
  std::unordered_map<const hca::CompletionQueue*, std::unique_ptr<CqDriverState>> cq_states_;
};

}  // namespace weft::host
