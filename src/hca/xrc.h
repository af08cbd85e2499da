#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "hca/memory_region.h"

namespace weft::hca {

class SharedReceiveQueue;

/// XRC domain (IBTA vol 1 annex A14): the XRC SRQs and target QPs that may meet. One with a name is
/// shared with other processes (hca/xrc_relay.h).
class XrcDomain {
 public:
  explicit XrcDomain(std::uint32_t its_name = 0) : name(its_name) {}

  const std::uint32_t name;           ///< by which processes know it; 0: this one's alone
  std::atomic<std::uint32_t> uses{};  ///< XRC SRQs and target QPs; closing is refused while not 0

  /// What target QPs have for a PD. No memory is registered in it: the PD of the SRQ that a request
  /// names counts.
  ProtectionDomain nothing;
};

/// The XRC SRQs of one HCA by number: from `first` on, as its QPs, so that a number says whose it
/// is. Changed under one lock; looked up without, by responders, which hold what they find by
/// SharedReceiveQueue::uses before they leave their QP's lock.
class XrcSrqTable {
 public:
  XrcSrqTable(std::uint32_t first, std::uint32_t most) : first_(first), slots_(most) {}

  /// A free number, which is not used again soon.
  [[nodiscard]] Result<std::uint32_t> reserve();
  void set(std::uint32_t number, SharedReceiveQueue* srq);

  /// The SRQ of that number if it is of that domain, else null; any number may be asked for.
  [[nodiscard]] SharedReceiveQueue* find(std::uint32_t number, const XrcDomain& domain) const;

 private:
  const std::uint32_t first_;
  std::vector<std::atomic<SharedReceiveQueue*>> slots_;  // by number - first_
  std::uint32_t next_{};
};

}  // namespace weft::hca
