#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/lock.h"
#include "base/result.h"
#include "hca/events.h"
#include "hca/memory_region.h"
#include "hca/types.h"

namespace weft::hca {

class XrcDomain;

/// Storage for a scatter list of at most most() elements. Receive WQEs swap it with their taker's,
/// so taking one neither allocates nor, unless the taker's storage is larger, copies.
class ScatterList {
 public:
  ScatterList() = default;
  explicit ScatterList(std::uint32_t most) : sges_(std::make_unique<Sge[]>(most)), most_(most) {}

  [[nodiscard]] std::uint32_t most() const { return most_; }
  [[nodiscard]] std::span<const Sge> sges() const { return {sges_.get(), count_}; }

  /// At most most() elements.
  void assign(std::span<const Sge> sges) {
    count_ = static_cast<std::uint32_t>(sges.size());
    std::ranges::copy(sges, sges_.get());
  }

 private:
  std::unique_ptr<Sge[]> sges_;
  std::uint32_t most_{};
  std::uint32_t count_{};
};

/// A receive work request, queued or being filled.
struct ReceiveWqe {
  std::uint64_t wr_id{};
  std::uint32_t length{};  // sum of the scatter list, bytes (saturated at 2^32-1)
  ScatterList list;
};

/// Bounded FIFO of receive WQEs: the RQ of a QP (guarded by the responder's lock) or the core of an
/// SRQ (guarded by the SRQ's lock).
class ReceiveQueue {
 public:
  ReceiveQueue(std::uint32_t depth, std::uint32_t max_sge);

  Result<void> push(
      const RecvWr& wr);  ///< refuses a full queue (OutOfMemory) or too many SGEs (InvalidArgument)
  bool take(ReceiveWqe& into);  ///< oldest first; false if empty
  [[nodiscard]] std::uint32_t size() const;
  [[nodiscard]] std::uint32_t depth() const;
  [[nodiscard]] std::uint32_t max_sge() const;
  void clear();
  void move_to(ReceiveQueue& other);  ///< moves all, oldest first; `other` must have room

 private:
  [[nodiscard]] ReceiveWqe& at(std::uint32_t index) { return ring_[index & mask_]; }

  std::vector<ReceiveWqe> ring_;  // size is a power of two, at least depth_
  std::uint32_t mask_;
  std::uint32_t depth_;
  std::uint32_t max_sge_;
  std::uint32_t head_{};  // grows without wrapping
  std::uint32_t size_{};
};

/// What makes an SRQ an XRC SRQ (IBTA vol 1 annex A14).
struct XrcSrqInit {
  XrcDomain* domain{};  // null: not an XRC SRQ
  CompletionQueue* cq{};
  std::uint32_t number{};  // 24 bits
};

/// Shared receive queue (IBTA vol 1 §10.2.9). Any thread may call it; it has a lock of its own
/// under the driver's policy. When the number of WQEs falls below the limit, SrqLimitReached is
/// raised once and the limit is reset to 0 (R-RVT-15).
class SharedReceiveQueue {
 public:
  SharedReceiveQueue(ProtectionDomain& pd, std::uint32_t depth, std::uint32_t max_sge,
                     std::uint32_t limit, LockPolicy policy, HcaEvents& events,
                     const XrcSrqInit& xrc = {});

  /// Adds a receive WQE; refused as by ReceiveQueue::push, and in the error state.
  Result<void> post(const RecvWr& wr);
  /// Takes the oldest WQE, and raises SrqLimitReached if that crosses the limit; false if there is
  /// none.
  bool take(ReceiveWqe& into);
  /// Enters the error state because receives can no longer complete (SRQ catastrophic error, IBTA
  /// vol 1 §11.6.3.2): raises SrqError once, and neither accepts nor hands out WQEs from now on. It
  /// can only be destroyed.
  void enter_error();
  [[nodiscard]] bool is_in_error();
  [[nodiscard]] std::uint32_t size();
  /// Changes both or, on refusal, neither; nullopt keeps the value (IBTA vol 1 §11.2.3.3).
  Result<void> modify(std::optional<std::uint32_t> depth, std::optional<std::uint32_t> limit);
  [[nodiscard]] std::uint32_t limit();
  [[nodiscard]] std::uint32_t depth();
  [[nodiscard]] std::uint32_t max_sge();
  [[nodiscard]] ProtectionDomain& pd() const { return pd_; }
  [[nodiscard]] const XrcSrqInit& xrc() const { return xrc_; }

  void* user{};
  std::atomic<std::uint32_t>
      uses{};  ///< QPs that use it; for an XRC SRQ, messages that fill one of its WQEs

 private:
  PolicyLock lock_;
  ProtectionDomain& pd_;
  HcaEvents& events_;
  ReceiveQueue queue_;
  std::uint32_t limit_{};
  bool in_error_{};
  const XrcSrqInit xrc_;
};

}  // namespace weft::hca
