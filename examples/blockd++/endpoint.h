#pragma once

// What both ends have: a PD, a CQ whose completions call handlers, and slots with a message each
// way.

#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "core/cm/rdma_cm.h"
#include "core/cq.h"
#include "core/drain.h"
#include "core/pd.h"
#include "core/qp.h"

namespace weft::blockd {

/// PD, CQ and QP of one connection, until it is destroyed.
class Endpoint {
 public:
  Endpoint() = default;
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;
  ~Endpoint() { reset(); }

  /// Ends it: afterwards none of its handlers runs.
  void reset() {
    if (id_ != nullptr && id_->qp() != nullptr) {
      static_cast<void>(core::drain_qp(*id_->qp()));
      id_->destroy_qp();
    }
    id_ = nullptr;
    if (cq_ != nullptr) {
      static_cast<void>(core::free_cq(*cq_));
      cq_ = nullptr;
    }
    if (pd_ != nullptr) {
      static_cast<void>(core::deallocate_pd(*pd_));
      pd_ = nullptr;
    }
  }

  /// The id outlives it.
  Result<void> make(core::RdmaCmId& id, std::uint32_t requests, core::PdFlags flags = {}) {
    const auto pd = core::allocate_pd(*id.device(), flags, "blockd++");
    if (!pd) {
      return std::unexpected(pd.error());
    }
    pd_ = *pd;
    // A request is three completions at most, and drains need room.
    const auto cq =
        core::allocate_any_cq(*id.device(), {.entries = 4 * requests + 2, .caller = "blockd++"});
    if (!cq) {
      return std::unexpected(cq.error());
    }
    cq_ = *cq;
    core::QpInit init;
    init.send_cq = cq_;
    init.recv_cq = cq_;
    init.capabilities = {.max_send_wr = 2 * requests + 1,
                         .max_recv_wr = requests + 1,
                         .max_send_sge = 1,
                         .max_recv_sge = 1};
    init.caller = "blockd++";
    const auto qp = id.create_qp(*pd_, init);
    if (!qp) {
      return std::unexpected(qp.error());
    }
    id_ = &id;
    return {};
  }

  [[nodiscard]] core::Pd& pd() const { return *pd_; }
  [[nodiscard]] core::Qp& qp() const { return *id_->qp(); }
  [[nodiscard]] verbs::Sge sge(const void* data, std::size_t bytes) const {
    return {.address = std::bit_cast<std::uint64_t>(data),
            .length = static_cast<std::uint32_t>(bytes),
            .lkey = pd_->local_dma_lkey()};
  }

 private:
  core::RdmaCmId* id_{};
  core::Pd* pd_{};
  core::Cq* cq_{};
};

/// Both ends READ and WRITE with as many outstanding as requests.
[[nodiscard]] inline verbs::ConnectionParameters parameters() {
  verbs::ConnectionParameters made;
  made.responder_resources = 4;
  made.initiator_depth = 4;
  made.retry_count = 7;
  made.rnr_retry_count = 7;
  return made;
}

}  // namespace weft::blockd
