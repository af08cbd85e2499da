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

/// Storage for a scatter list of up to so many elements. Receive WQEs hand it on: nothing is
/// allocated when one is taken, nor copied unless the taker's is larger.
class ScatterList {
 public:
  ScatterList() = default;
  explicit ScatterList(std::uint32_t most) : sges_(std::make_unique<Sge[]>(most)), most_(most) {}

  [[nodiscard]] std::uint32_t most() const { return most_; }
  [[nodiscard]] std::span<const Sge> sges() const { return {sges_.get(), count_}; }

  /// Of at most most().
  void assign(std::span<const Sge> sges) {
    count_ = static_cast<std::uint32_t>(sges.size());
    std::ranges::copy(sges, sges_.get());
  }

 private:
  std::unique_ptr<Sge[]> sges_;
  std::uint32_t most_{};
  std::uint32_t count_{};
};

/// A receive work request as it waits, or as it is filled.
struct ReceiveWqe {
  std::uint64_t wr_id{};
  std::uint32_t length{};  // sum of the scatter list, bytes (saturated at 2^32-1)
  ScatterList list;
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

/// Of an XRC SRQ (IBTA vol 1 annex A14): where it belongs, and where its receives complete.
struct XrcSrqInit {
  XrcDomain* domain{};  // null: no XRC SRQ
  CompletionQueue* cq{};
  std::uint32_t number{};  // 24 bits
};

/// Shared receive queue (IBTA vol 1 §10.2.9.x): any thread; one lock under the driver's policy.
/// Crossing below the limit raises SrqLimitReached once, then the limit is 0 again (R-RVT-15).
class SharedReceiveQueue {
 public:
  SharedReceiveQueue(ProtectionDomain& pd, std::uint32_t depth, std::uint32_t max_sge,
                     std::uint32_t limit, LockPolicy policy, HcaEvents& events,
                     const XrcSrqInit& xrc = {});

  Result<void> post(const RecvWr& wr);
  bool take(ReceiveWqe& into);
  /// Its receives cannot complete any more (IBTA vol 1 §11.6.3.2, SRQ catastrophic error): it takes
  /// and gives none from now on, and SrqError is raised once. It can only be destroyed.
  void enter_error();
  [[nodiscard]] bool is_in_error();
  [[nodiscard]] std::uint32_t size();
  /// Both or neither; what is not given stays (IBTA vol 1 §11.2.3.3).
  Result<void> modify(std::optional<std::uint32_t> depth, std::optional<std::uint32_t> limit);
  [[nodiscard]] std::uint32_t limit();
  [[nodiscard]] std::uint32_t depth();
  [[nodiscard]] std::uint32_t max_sge();
  [[nodiscard]] ProtectionDomain& pd() const { return pd_; }
  [[nodiscard]] const XrcSrqInit& xrc() const { return xrc_; }

  void* user{};
  std::atomic<std::uint32_t> uses{};  ///< QPs; of an XRC SRQ, messages that fill a receive of it

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
