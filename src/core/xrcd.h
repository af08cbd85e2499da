#pragma once

#include <atomic>
#include <cstdint>
#include <map>

#include "base/lock.h"
#include "base/result.h"
#include "core/resource.h"

namespace weft::core {

class Qp;

/// XRC domain (IBTA vol 1 annex A14): XRC SRQs and target QPs that may meet.
class Xrcd final : public Resource {
 public:
  Xrcd(Device& device, LockPolicy policy)
      : Resource(device, ResourceKind::Xrcd, "core"), lock_(policy) {}

  [[nodiscard]] std::uint32_t uses() const { return uses_.load(std::memory_order_acquire); }
  void hold() { uses_.fetch_add(1, std::memory_order_relaxed); }
  void put() { uses_.fetch_sub(1, std::memory_order_acq_rel); }

 private:
  friend struct QpAccess;
  PolicyLock lock_;
  std::map<std::uint32_t, Qp*> targets_;  // by number, those that can be opened
  std::atomic<std::uint32_t> uses_{};
};

Result<Xrcd*> allocate_xrcd(Device& device);
/// Busy while SRQs or target QPs are in it.
Result<void> deallocate_xrcd(Xrcd& xrcd);

}  // namespace weft::core
