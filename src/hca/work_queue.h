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

/// A receive queue that belongs to no QP. It takes receives and flushes them; messages come to it
/// through the indirection table of an Ethernet port's QP, which an InfiniBand port does not have.
/// Any thread; one lock under the driver's policy.
class WorkQueue {
 public:
  struct Init {
    ProtectionDomain* pd{};
    CompletionQueue* cq{};
    std::uint32_t depth{};
    std::uint32_t max_sge{};
  };
  WorkQueue(const Init& init, Qpn number, LockPolicy policy);

  /// Refused in Reset; in Error a receive is completed as flushed at once, as on a QP.
  Result<void> post(const RecvWr& wr);

  /// Reset to Ready, Ready to Error, and both back to Reset, which forgets all receives without a
  /// completion. Refused when the state is not `from`.
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
