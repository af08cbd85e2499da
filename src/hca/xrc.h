#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "hca/memory_region.h"

namespace weft::hca {

class SharedReceiveQueue;

/// XRC domain (IBTA vol 1 annex A14): a target QP may use the XRC SRQs of its own domain. A domain
/// with a name is shared with other processes (hca/xrc_relay.h).
class XrcDomain {
 public:
  explicit XrcDomain(std::uint32_t its_name = 0) : name(its_name) {}

  const std::uint32_t name;           ///< identifies it to all processes; 0: private to this one
  std::atomic<std::uint32_t> uses{};  ///< XRC SRQs and target QPs; closing is refused while not 0

  /// Stands in for the PD of target QPs. No memory is registered in it: the PD of the SRQ that a
  /// request names applies.
  ProtectionDomain nothing;
};

/// The XRC SRQs of one HCA by number. Numbers start at `first`, as QPNs do, so that a number
/// identifies its owner. Changed under Hca's lock of objects. Responders look up without a lock,
/// and keep what they found alive by SharedReceiveQueue::uses before they release their QP's lock.
class XrcSrqTable {
 public:
  XrcSrqTable(std::uint32_t first, std::uint32_t most) : first_(first), slots_(most) {}

  /// Reserves a free number; recently freed numbers are avoided.
  [[nodiscard]] Result<std::uint32_t> reserve();
  /// Publishes the SRQ of a reserved number; null withdraws it.
  void set(std::uint32_t number, SharedReceiveQueue* srq);

  /// The SRQ with that number if it belongs to `domain`, else null. `number` is untrusted.
  [[nodiscard]] SharedReceiveQueue* find(std::uint32_t number, const XrcDomain& domain) const;

 private:
  const std::uint32_t first_;
  std::vector<std::atomic<SharedReceiveQueue*>> slots_;  // index: number - first_
  std::uint32_t next_{};
};

}  // namespace weft::hca
