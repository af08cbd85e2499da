#pragma once

#include <cstddef>
#include <span>

namespace weft::hca {

/// The driver's knowledge of the program's memory, for regions whose pages need not be present when
/// they are registered (on-demand paging, R-ODP-3) and for those with persistent memory.
class UserMemory {
 public:
  virtual ~UserMemory() = default;

  /// Makes every page of a range present, as the kernel does when an HCA reports a page fault.
  /// False if the program has no such memory, or may not write it. Called with a QP's lock held.
  [[nodiscard]] virtual bool fault_in(std::span<std::byte> range, bool for_writing) = 0;

  /// Makes the content of a range persistent, as FLUSH for persistence requires (IBTA vol 1 annex
  /// A19); returns when it is. False if that is impossible. Called with a QP's lock held, for
  /// regions with Access::FlushPersistent.
  [[nodiscard]] virtual bool persist(std::span<std::byte> range) = 0;
};

}  // namespace weft::hca
