#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>

#include "base/lock.h"
#include "base/result.h"
#include "hca/completion_queue.h"
#include "hca/memory_region.h"
#include "hca/receive_queue.h"
#include "hca/types.h"

namespace weft::hca {

enum class WorkQueueState : std::uint8_t { Reset, Ready, Error };

/// A receive work queue that belongs to no QP (ibv_create_wq). UD QPs receive into it through
/// indirection tables (hca/receive_scaling.h). Any thread may call it; it has a lock of its own
/// under the driver's policy, which comes after those of QPs.
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

  /// How a datagram fared; what is not Done is dropped, and leaves the receives as they are.
  enum class Delivery : std::uint8_t { Done, NotReady, NoReceive, TooShort };
  /// Fills the oldest receive, which must have room for `needed` bytes, by
  /// `scatter(pd, sges) -> WcStatus`, and completes it: `wc` says the rest. If that fails the queue
  /// goes to Error.
  template <class Scatter>
  Delivery deliver(std::uint64_t needed, Wc& wc, bool solicited, Scatter scatter) {
    const std::lock_guard guard{lock_};
    if (state_ != WorkQueueState::Ready) {
      return Delivery::NotReady;
    }
    has_current_ = has_current_ || queue_.take(current_);
    if (!has_current_) {
      return Delivery::NoReceive;
    }
    if (needed > current_.length) {
      return Delivery::TooShort;
    }
    has_current_ = false;
    wc.status = scatter(*init_.pd, current_.list.sges());
    wc.wr_id = current_.wr_id;
    wc.qpn = number_;
    if (!init_.cq->push(wc, solicited) || wc.status != WcStatus::Success) {
      state_ = WorkQueueState::Error;
      flush();
    }
    return Delivery::Done;
  }

  [[nodiscard]] WorkQueueState state();
  [[nodiscard]] Qpn number() const { return number_; }
  [[nodiscard]] ProtectionDomain& pd() const { return *init_.pd; }
  [[nodiscard]] CompletionQueue& cq() const { return *init_.cq; }
  [[nodiscard]] std::uint32_t depth() const { return init_.depth; }
  [[nodiscard]] std::uint32_t max_sge() const { return init_.max_sge; }

  std::atomic<std::uint32_t> uses{};  ///< entries of indirection tables

 private:
  void flush();

  PolicyLock lock_;
  Init init_;
  Qpn number_;
  WorkQueueState state_{WorkQueueState::Reset};
  ReceiveQueue queue_;
  ReceiveWqe current_;  // valid if has_current_: the oldest, which a datagram was too long for
  bool has_current_{};
};

}  // namespace weft::hca
