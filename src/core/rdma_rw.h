#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/identifiers.h"
#include "base/keys.h"
#include "base/result.h"
#include "core/dma.h"
#include "core/mr.h"
#include "core/qp.h"
#include "core/signature.h"
#include "core/work_request.h"

namespace weft::core {

/// What an RDMA context moves: all of `list` from byte `offset` on. List and memory stay until the
/// context is destroyed.
struct RdmaTransfer {
  std::span<const ScatterEntry> list{};
  std::uint32_t offset{};          ///< bytes of the list that are left out
  std::uint64_t remote_address{};  ///< of the first byte that is moved
  RKey rkey{};
  DmaDirection direction{};  ///< ToDevice: RDMA WRITE; FromDevice: RDMA READ
};

/// What protects a transfer on its way. The transfer's offset is 0.
struct RdmaProtection {
  std::span<const ScatterEntry> list{};  ///< tuples in memory; empty without any there
  SignatureAttributes attributes{};
};

/// One logical RDMA READ or WRITE of a scatter list, done in the way that suits the device (`struct
/// rdma_rw_ctx`): by one work request; by several, each with as many elements as the QP takes; or
/// through regions of the QP's pool, which are registered for it and invalidated by whoever uses
/// them next (R-RW-2). For one transfer at a time: init, post, its completion, destroy; then the
/// next. It keeps what it allocated, so that transfers of the same size allocate nothing. Calls of
/// one context are its user's to serialise.
class RdmaContext {
 public:
  RdmaContext() = default;
  ~RdmaContext();
  RdmaContext(const RdmaContext&) = delete;
  RdmaContext& operator=(const RdmaContext&) = delete;

  /// How many entries of the send queue the transfer takes (`rdma_rw_ctx_init`). Io: the list ends
  /// at or before `offset`; TryAgain: no region is left in the pool; InvalidArgument: the regions
  /// cannot show this list; or the driver's refusal to map memory. Nothing is kept on failure.
  Result<std::uint32_t> init(Qp& qp, PortNumber port, const RdmaTransfer& transfer);

  /// The same with protection information (`rdma_rw_ctx_signature_init`). InvalidArgument: also, a
  /// list of more elements than a region has.
  Result<std::uint32_t> init_signature(Qp& qp, PortNumber port, const RdmaTransfer& transfer,
                                       const RdmaProtection& protection);

  /// The chain of work requests, registrations included (`rdma_rw_ctx_wrs`). With `chain` it ends
  /// in the caller's own requests, and none of its own is signalled: a handler is called only if
  /// the transfer fails. Without, `handler` is called when it is done. Called once a transfer, by
  /// post() or by the caller.
  const SendWr& work_requests(const CompletionHandler* handler, const SendWr* chain = nullptr);

  /// Chains and posts (`rdma_rw_ctx_post`). After a failure the context is to be destroyed; the
  /// regions know which of them were registered. Requests before the one that was refused are under
  /// way, which happens only to queues smaller than their contexts: drain the QP first then.
  Result<void> post(const CompletionHandler* handler, const SendWr* chain = nullptr);

  /// What follows a refusal of the chain from work_requests() by post_send(): `bad` and what comes
  /// after it was not posted.
  void forget_unposted(const SendWr* bad);

  /// Gives regions back and unmaps memory, after completion (`rdma_rw_ctx_destroy`,
  /// `rdma_rw_ctx_destroy_signature`). Of a context that was not made, or is destroyed: nothing.
  void destroy();

  /// Null but with a signature: what check_mr_status() is asked of after completion.
  [[nodiscard]] Mr* signature_region() const;

 private:
  /// A region with the requests that use it.
  struct Registration {
    Mr* mr{};
    bool is_invalidated_first{};
    std::uint32_t key_before{};
    verbs::Sge sge{};
    SendWr invalidate{};
    SendWr enroll{};  // REG_MR
    SendWr transfer{};
  };

  Result<void> begin(Qp& qp, const RdmaTransfer& transfer,
                     std::span<const ScatterEntry> protection);
  Result<std::uint32_t> prepare(PortNumber port, const RdmaTransfer& transfer);
  std::uint32_t prepare_requests(std::span<const ScatterEntry> list, std::uint32_t offset,
                                 const RdmaTransfer& transfer);
  Result<std::uint32_t> prepare_regions(PortNumber port, std::span<const ScatterEntry> list,
                                        std::uint32_t offset, const RdmaTransfer& transfer);
  Result<std::uint32_t> prepare_signature(PortNumber port, const RdmaTransfer& transfer,
                                          const RdmaProtection& protection);
  std::uint32_t complete(Registration& registration, PortNumber port, std::uint64_t length,
                         std::uint64_t remote_address, const RdmaTransfer& transfer);

  Qp* qp_{};  // null: no transfer
  bool has_signature_{};
  DmaDirection direction_{};
  std::span<const ScatterEntry> list_;
  std::span<const ScatterEntry> protection_;
  std::vector<verbs::Sge> sges_;
  std::vector<SendWr> requests_;             // without regions
  std::vector<Registration> registrations_;  // or with
};

}  // namespace weft::core
