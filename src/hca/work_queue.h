#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "base/lock.h"
#include "base/result.h"
#include "hca/completion_queue.h"
#include "hca/memory_region.h"
#include "hca/receive_queue.h"
#include "hca/types.h"

namespace weft::hca {

enum class WorkQueueState : std::uint8_t { Reset, Ready, Error };

/// A receive work queue that belongs to no QP (ibv_create_wq). It accepts receives and flushes
/// them, but receives no messages: those come through the indirection table of an Ethernet QP,
/// which InfiniBand ports do not have. Any thread may call it; it has a lock of its own under the
/// driver's policy.
class WorkQueue {
 public:
  /// Arguments of Hca::create_wq.
  struct Init {
    ProtectionDomain* pd{};
    CompletionQueue* cq{};
    std::uint32_t depth{};
    std::uint32_t max_sge{};
  };
  WorkQueue(const Init& init, Qpn number, LockPolicy policy);

  /// Refused in Reset; in Error the receive completes at once as flushed, as on a QP.
  Result<void> post(const RecvWr& wr);

  /// Reset to Ready, Ready to Error, and either back to Reset, which discards all receives without
  /// completions. Refused if the state is not `from`.
  Result<void> modify(std::optional<WorkQueueState> from, WorkQueueState to);

  [[nodiscard]] WorkQueueState state();
  [[nodiscard]] Qpn number() const { return number_; }
  [[nodiscard]] ProtectionDomain& pd() const { return *init_.pd; }
  [[nodiscard]] CompletionQueue& cq() const { return *init_.cq; }
  [[nodiscard]] std::uint32_t depth() const { return init_.depth; }
  [[nodiscard]] std::uint32_t max_sge() const { return init_.max_sge; }

 private:
  void flush();

  PolicyLock lock_;
  Init init_;
  Qpn number_;
  WorkQueueState state_{WorkQueueState::Reset};
  ReceiveQueue queue_;
};

}  // namespace weft::hca
