#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/lock.h"
#include "base/result.h"
#include "hca/events.h"
#include "hca/memory_region.h"
#include "hca/types.h"

namespace weft::hca {

/// A receive work request as it waits: its scatter list lies in `sges` of the queue that it was
/// taken from.
struct ReceiveWqe {
  std::uint64_t wr_id{};
  std::uint32_t length{};  // sum of the scatter list, bytes (saturated at 2^32-1)
  std::vector<Sge> sges;   // reserved once to max_sge: taking a WQE swaps storage, never allocates
};

/// Bounded first-in first-out queue of receive WQEs: the RQ of a QP (under the QP's lock) or the
/// core of an SRQ.
class ReceiveQueue {
 public:
  ReceiveQueue(std::uint32_t depth, std::uint32_t max_sge);

  Result<void> push(
      const RecvWr& wr);  ///< refuses a full queue (OutOfMemory) or too many SGEs (InvalidArgument)
  bool take(ReceiveWqe& into);  ///< oldest first; false when empty
  [[nodiscard]] std::uint32_t size() const;
  [[nodiscard]] std::uint32_t depth() const;
  [[nodiscard]] std::uint32_t max_sge() const;
  void clear();
  void move_to(ReceiveQueue& other);  ///< oldest first; `other` has room

 private:
  [[nodiscard]] ReceiveWqe& at(std::uint32_t index) { return ring_[index & mask_]; }

  std::vector<ReceiveWqe> ring_;  // a power of two of them, at least depth_
  std::uint32_t mask_;
  std::uint32_t depth_;
  std::uint32_t max_sge_;
  std::uint32_t head_{};  // ever growing
  std::uint32_t size_{};
};

/// Shared receive queue (IBTA vol 1 §10.2.9.x): any thread; one lock under the driver's policy.
/// Crossing below the limit raises SrqLimitReached once, then the limit is 0 again (R-RVT-15).
class SharedReceiveQueue {
 public:
  SharedReceiveQueue(ProtectionDomain& pd, std::uint32_t depth, std::uint32_t max_sge,
                     std::uint32_t limit, LockPolicy policy, HcaEvents& events);

  Result<void> post(const RecvWr& wr);
  bool take(ReceiveWqe& into);
  [[nodiscard]] std::uint32_t size();
  Result<void> set_limit(std::uint32_t limit);
  Result<void> resize(std::uint32_t depth);
  [[nodiscard]] std::uint32_t limit();
  [[nodiscard]] std::uint32_t depth();
  [[nodiscard]] std::uint32_t max_sge();
  [[nodiscard]] ProtectionDomain& pd() const { return pd_; }

  void* user{};
  std::atomic<std::uint32_t> uses{};

 private:
  PolicyLock lock_;
  ProtectionDomain& pd_;
  HcaEvents& events_;
  ReceiveQueue queue_;
  std::uint32_t limit_{};
};

}  // namespace weft::hca
