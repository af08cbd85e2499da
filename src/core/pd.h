#pragma once

#include <atomic>
#include <cstdint>

#include "base/flags.h"
#include "base/keys.h"
#include "base/result.h"
#include "core/resource.h"
#include "core/work_request.h"

namespace weft::core {

class Mr;

enum class PdFlag : std::uint32_t {
  /// Wants an R_Key for all memory. Every peer that learns of it reads and writes everything.
  UnsafeGlobalRkey = 1U << 0,
};
using PdFlags = Flags<PdFlag>;

/// Protection domain: what QPs, SRQs, AHs, MRs and MWs have in common that may work together (IBTA
/// vol 1 §10.2.3). Any thread.
class Pd final : public Resource {
 public:
  Pd(Device& device, const char* caller, PdFlags flags)
      : Resource(device, ResourceKind::Pd, caller), flags_(flags) {}

  [[nodiscard]] PdFlags flags() const { return flags_; }
  /// For local access to all memory of the process.
  [[nodiscard]] LKey local_dma_lkey() const { return local_dma_lkey_; }
  /// Only with PdFlag::UnsafeGlobalRkey.
  [[nodiscard]] RKey unsafe_global_rkey() const { return unsafe_global_rkey_; }
  /// Objects inside.
  [[nodiscard]] std::uint32_t uses() const { return uses_.load(std::memory_order_acquire); }

  void hold() { uses_.fetch_add(1, std::memory_order_relaxed); }
  void put() { uses_.fetch_sub(1, std::memory_order_acq_rel); }

 private:
  friend Result<Pd*> allocate_pd(Device& device, PdFlags flags, const char* caller,
                                 UserData* user_data);
  friend Result<void> deallocate_pd(Pd& pd, UserData* user_data);
  PdFlags flags_;
  LKey local_dma_lkey_{};
  RKey unsafe_global_rkey_{};
  Mr* internal_mr_{};  // where the device has no reserved key, or a global R_Key is wanted
  std::atomic<std::uint32_t> uses_{};
};

/// A PD with a key for all local memory: the device's own, or an internal region's (R-PD-1).
Result<Pd*> allocate_pd(Device& device, PdFlags flags = {}, const char* caller = "core",
                        UserData* user_data = nullptr);

/// Busy while objects are inside, and the PD stays whole (R-PD-2).
Result<void> deallocate_pd(Pd& pd, UserData* user_data = nullptr);

}  // namespace weft::core
