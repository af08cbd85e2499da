#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/identifiers.h"
#include "base/keys.h"
#include "hca/memory_region.h"
#include "hca/types.h"

namespace weft::hca {

/// The types of memory window (IBTA vol 1 §10.6.7.2); the numbers are those of the verbs API. A
/// device has windows of type 2A or 2B, not both, and ours are 2B: R_Key, PD and QP must fit.
enum class WindowType : std::uint8_t { Type1 = 1, Type2 = 2 };

/// An R_Key of its own for a part of a region, given and taken back by work requests. Whoever
/// changes it holds the table's lock; peers' accesses look at it without any lock, and are refused
/// while it changes: neither what was bound before nor what will be is theirs at that moment.
class MemoryWindow {
 public:
  MemoryWindow(ProtectionDomain& pd, WindowType type, RKey rkey)
      : pd_(pd), type_(type), rkey_(rkey.value()) {}

  [[nodiscard]] ProtectionDomain& pd() const { return pd_; }
  [[nodiscard]] WindowType type() const { return type_; }
  [[nodiscard]] RKey rkey() const { return RKey{rkey_.load(std::memory_order_relaxed)}; }

  /// What a request to QP `qpn` of `pd` sees through `rkey`, as a region; fault None if it may.
  struct View {
    KeyFault fault{KeyFault::None};
    MemoryRegion region;
  };
  [[nodiscard]] View view(const ProtectionDomain& pd, Qpn qpn, RKey rkey) const;

  // With the table's lock.
  [[nodiscard]] bool is_bound() const { return region_ != nullptr; }
  [[nodiscard]] Qpn qpn() const { return Qpn{qpn_.load(std::memory_order_relaxed)}; }
  /// Shows what `binding` names of `region`, which was checked, and no more what it showed before.
  void bind(MemoryRegion& region, Qpn qpn, const WindowBinding& binding);
  /// Shows nothing, under the key `rkey`.
  void unbind(RKey rkey);

 private:
  void show(RKey rkey, std::byte* memory, const WindowBinding& binding, AccessFlags access,
            Qpn qpn);

  ProtectionDomain& pd_;
  const WindowType type_;
  MemoryRegion* region_{};  // bound to it; under the table's lock

  // A sequence lock of atomics: the version is odd while the others change.
  std::atomic<std::uint32_t> version_{};
  std::atomic<std::uint32_t> rkey_;
  std::atomic<std::uint32_t> qpn_{};
  std::atomic<std::uint32_t> access_{};
  std::atomic<std::uint64_t> iova_{};
  std::atomic<std::uint64_t> length_{};  // 0: not bound
  std::atomic<std::byte*> memory_{};
};

}  // namespace weft::hca
