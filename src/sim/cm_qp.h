#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "hca/hca.h"
#include "verbs/qp_attributes.h"

namespace weft::sim {

/// The RC QP of one end of a managed connection with its resources and posted receives. Applies the
/// attributes given by a connection manager (R-CM-3). Its HCA must outlive it. Not thread-safe.
class CmQp {
 public:
  static constexpr std::size_t kMaxBytes = 1000;  ///< default maximum message size
  static constexpr std::size_t kDepth = 8;

  /// Fails if the HCA has no more QPs.
  [[nodiscard]] static Result<std::unique_ptr<CmQp>> create(hca::Hca& hca,
                                                            hca::ProtectionDomain& pd,
                                                            Psn starting_psn,
                                                            std::size_t max_bytes = kMaxBytes);
  ~CmQp();
  CmQp(const CmQp&) = delete;
  CmQp& operator=(const CmQp&) = delete;

  [[nodiscard]] Qpn number() const { return qp_->number(); }
  [[nodiscard]] Psn starting_psn() const { return starting_psn_; }
  [[nodiscard]] std::size_t max_bytes() const { return max_bytes_; }
  [[nodiscard]] hca::QpState state() { return qp_->query().state; }
  [[nodiscard]] hca::MigrationState migration() { return qp_->query().migration; }
  /// Migrates to the alternate path; fails unless the QP is ARMED (IBTA vol 1 §17.2.8.1).
  [[nodiscard]] Result<void> migrate();
  [[nodiscard]] Result<void> modify(const verbs::QpModification& to);
  void enter_error();

  [[nodiscard]] bool has_room() const { return posted_ - completed_ < kDepth; }
  [[nodiscard]] bool is_idle() const { return posted_ == completed_; }
  [[nodiscard]] Result<void> send(ByteSpan message);
  /// Posts an RDMA WRITE of zero bytes, which succeeds if the peer is alive.
  [[nodiscard]] Result<void> probe();

  /// Completions since the last call.
  struct Completions {
    std::vector<std::vector<std::byte>> messages;
    bool has_completed{};  ///< a posted request completed
    bool has_failed{};
  };
  [[nodiscard]] Completions poll();

 private:
  CmQp(hca::Hca& hca, Psn starting_psn, std::size_t max_bytes)
      : hca_(hca),
        starting_psn_(starting_psn),
        max_bytes_(max_bytes),
        memory_(2 * kDepth * max_bytes) {}
  [[nodiscard]] Result<void> post_receive(std::size_t slot);
  [[nodiscard]] hca::Sge element(std::size_t slot, std::size_t bytes) const;

  hca::Hca& hca_;
  Psn starting_psn_;
  std::size_t max_bytes_;          // maximum message size
  std::vector<std::byte> memory_;  // receive buffers, then send buffers
  hca::MemoryRegion* region_{};
  hca::CompletionQueue* cq_{};
  hca::Qp* qp_{};
  std::uint64_t posted_{};
  std::uint64_t completed_{};
};

}  // namespace weft::sim
