#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/identifiers.h"
#include "base/keys.h"
#include "hca/memory_region.h"
#include "hca/types.h"

namespace weft::hca {

/// Types of memory window (IBTA vol 1 §10.6.7.2), with the numbers of the verbs API. A device has
/// windows of type 2A or of type 2B; these are 2B, so R_Key, PD and QP must all match.
enum class WindowType : std::uint8_t { Type1 = 1, Type2 = 2 };

/// A memory window: an R_Key of its own for part of a region, bound and invalidated by work
/// requests. Writers hold the MemoryTable's lock. Peers' accesses read it without a lock and are
/// refused while it changes, since neither the old nor the new binding is valid at that moment.
class MemoryWindow {
 public:
  MemoryWindow(ProtectionDomain& pd, WindowType type, RKey rkey)
      : pd_(pd), type_(type), rkey_(rkey.value()) {}

  [[nodiscard]] ProtectionDomain& pd() const { return pd_; }
  [[nodiscard]] WindowType type() const { return type_; }
  [[nodiscard]] RKey rkey() const { return RKey{rkey_.load(std::memory_order_relaxed)}; }

  /// The bound part of the region as a request to QP `qpn` of `pd` may access it through `rkey`; if
  /// `fault` is not None, `region` is not valid.
  struct View {
    KeyFault fault{KeyFault::None};
    MemoryRegion region;
  };
  [[nodiscard]] View view(const ProtectionDomain& pd, Qpn qpn, RKey rkey) const;

  // Caller must hold the MemoryTable's lock.
  [[nodiscard]] bool is_bound() const { return region_ != nullptr; }
  [[nodiscard]] Qpn qpn() const { return Qpn{qpn_.load(std::memory_order_relaxed)}; }
  /// Replaces the binding. The caller has checked `binding` against `region`.
  void bind(MemoryRegion& region, Qpn qpn, const WindowBinding& binding);
  /// Removes the binding; the window's key becomes `rkey`.
  void unbind(RKey rkey);

 private:
  void show(RKey rkey, std::byte* memory, const WindowBinding& binding, AccessFlags access,
            Qpn qpn);

  ProtectionDomain& pd_;
  const WindowType type_;
  MemoryRegion* region_{};  // guarded by the table's lock

  // A sequence lock: version_ is odd while the members below change.
  std::atomic<std::uint32_t> version_{};
  std::atomic<std::uint32_t> rkey_;
  std::atomic<std::uint32_t> qpn_{};
  std::atomic<std::uint32_t> access_{};
  std::atomic<std::uint64_t> iova_{};
  std::atomic<std::uint64_t> length_{};  // 0: not bound
  std::atomic<std::byte*> memory_{};
};

}  // namespace weft::hca
