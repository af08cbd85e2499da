#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "hca/memory_region.h"

namespace weft::hca {

class SharedReceiveQueue;

/// XRC domain (IBTA vol 1 annex A14): the XRC SRQs and target QPs that may meet. Domains are of one
/// process: another one's memory could not be written from here (DESIGN.md, decision 10).
class XrcDomain {
 public:
  std::atomic<std::uint32_t> uses{};  ///< XRC SRQs and target QPs; closing is refused while not 0

  /// What target QPs have for a PD. No memory is registered in it: the PD of the SRQ that a request
  /// names counts.
  ProtectionDomain nothing;
};

/// The XRC SRQs of one HCA by number. Changed under one lock; looked up without, by responders,
/// which hold what they find by SharedReceiveQueue::uses before they leave their QP's lock.
class XrcSrqTable {
 public:
  explicit XrcSrqTable(std::uint32_t most) : slots_(most) {}

  /// A free number, which is not used again soon.
  [[nodiscard]] Result<std::uint32_t> reserve();
  void set(std::uint32_t number, SharedReceiveQueue* srq);

  /// The SRQ of that number if it is of that domain, else null; any number may be asked for.
  [[nodiscard]] SharedReceiveQueue* find(std::uint32_t number, const XrcDomain& domain) const;

 private:
  std::vector<std::atomic<SharedReceiveQueue*>> slots_;  // by number - 1: 0 is no XRC SRQ
  std::uint32_t next_{};
};

}  // namespace weft::hca
