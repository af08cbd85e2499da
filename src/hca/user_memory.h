#pragma once

#include <cstddef>
#include <span>

namespace weft::hca {

/// What the driver knows of the program's memory, for regions whose pages need not be there when
/// they are registered (on-demand paging, R-ODP-3).
class UserMemory {
 public:
  virtual ~UserMemory() = default;

  /// Makes every page of a range present, as an HCA's page fault has the kernel do; false when the
  /// program has no such memory, or none that it may write. Called with a QP's lock held.
  [[nodiscard]] virtual bool bring_in(std::span<std::byte> range, bool for_writing) = 0;
};

}  // namespace weft::hca
