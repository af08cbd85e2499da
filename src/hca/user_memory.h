#pragma once

#include <cstddef>
#include <span>

namespace weft::hca {

/// What the driver knows of the program's memory: for regions whose pages need not be there when
/// they are registered (on-demand paging, R-ODP-3), and for those that are to outlive the program.
class UserMemory {
 public:
  virtual ~UserMemory() = default;

  /// Makes every page of a range present, as an HCA's page fault has the kernel do; false when the
  /// program has no such memory, or none that it may write. Called with a QP's lock held.
  [[nodiscard]] virtual bool fault_in(std::span<std::byte> range, bool for_writing) = 0;

  /// Brings what was written to a range to where it outlives the program and the power, as a FLUSH
  /// for persistence asks (IBTA vol 1 annex A19), and returns when it is there; false when that
  /// cannot be. Called with a QP's lock held, for regions with Access::FlushPersistent.
  [[nodiscard]] virtual bool persist(std::span<std::byte> range) = 0;
};

}  // namespace weft::hca
