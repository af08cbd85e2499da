#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "hca/hca.h"
#include "host/lane.h"

namespace weft::host {

/// What the driver keeps of each CQ and QP, while they exist, and which SRQs they receive from. Who
/// has a QP or CQ finds its own by its `driver_data`, without this table. Owns its lock, which
/// comes before those of QPs; any thread.
class QpTable {
 public:
  QpTable() = default;
  QpTable(const QpTable&) = delete;
  QpTable& operator=(const QpTable&) = delete;

  void add_cq(hca::CompletionQueue& cq);
  /// A CQ that was destroyed.
  void remove_cq(const hca::CompletionQueue& cq);

  /// An XRC SRQ that completes at `cq`, where it may be taken for by any lane.
  void add_xrc_srq(hca::SharedReceiveQueue& srq, const hca::CompletionQueue& cq);
  void remove_xrc_srq(hca::SharedReceiveQueue& srq);

  QpDriverState& add(hca::Qp& qp, std::uint32_t hca, const hca::QpInit& init);
  /// A QP that was destroyed.
  void remove(const hca::Qp& qp);

  /// Calls `visit(hca::Qp&, QpDriverState&)` for all, with the lock.
  template <class Visit>
  void for_each(Visit visit) {
    const std::lock_guard guard{lock_};
    for (const auto& [qp, qp_state] : qp_states_) {
      visit(*qp_state->qp, *qp_state);
    }
  }

  /// Every QP to the error state, as on an HCA that fails as a whole (IBTA vol 1 §10.10.2.3, local
  /// catastrophic error): what is posted completes as flushed, receives of SRQs, too. No QP is
  /// being destroyed meanwhile.
  void fail_all();

 private:
  struct SharedReceives {
    hca::SharedReceiveQueue* queue{};
    hca::CompletionQueue* cq{};
  };

  std::mutex lock_;
  std::unordered_map<const hca::Qp*, std::unique_ptr<QpDriverState>> qp_states_;
  std::unordered_map<const hca::Qp*, SharedReceives> shared_receives_;  // of QPs with an SRQ
  std::unordered_set<hca::SharedReceiveQueue*> xrc_srqs_;
  std::unordered_map<const hca::CompletionQueue*, std::unique_ptr<CqDriverState>> cq_states_;
};

}  // namespace weft::host
