#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "core/address_space.h"
#include "core/dma.h"
#include "verbs/access_flags.h"

namespace weft::core {

class Device;

/// A program's memory that is pinned for a device (`struct ib_umem`): it stays where it is until
/// this object goes, which gives the lock accounting back (`ib_umem_release`, R-UM-2). Constant
/// once made.
class Umem {
 public:
  ~Umem();
  Umem(const Umem&) = delete;
  Umem& operator=(const Umem&) = delete;

  [[nodiscard]] std::uint64_t address() const { return address_; }
  [[nodiscard]] std::uint64_t length() const { return length_; }  ///< bytes, as asked for
  [[nodiscard]] bool is_writable() const { return is_writable_; }
  [[nodiscard]] std::uint64_t page_count() const { return page_count_; }
  /// Offset of the first byte in its page.
  [[nodiscard]] std::uint32_t offset() const;
  /// Whole pages as the device reaches them, in order; neighbours are one element, of at most 2
  /// GiB.
  [[nodiscard]] std::span<const ScatterEntry> list() const { return list_; }

  /// Copies bytes from `offset` on (`ib_umem_copy_from`). InvalidArgument: they are not all inside.
  Result<void> copy_from(std::uint64_t offset, MutableByteSpan into) const;

 private:
  friend Result<std::unique_ptr<Umem>> get_umem(Device& device, AddressSpace& space,
                                                std::uint64_t address, std::uint64_t length,
                                                verbs::AccessFlags access);
  Umem(Device& device, AddressSpace& space, std::uint64_t address, std::uint64_t length,
       bool is_writable);
  Result<void> charge();
  Result<void> pin();

  Device& device_;
  AddressSpace& space_;
  const std::uint64_t address_;
  const std::uint64_t length_;
  const bool is_writable_;
  const std::uint64_t page_count_;
  bool is_charged_{};
  bool is_mapped_{};
  std::uint64_t pinned_{};  // pages
  std::vector<ScatterEntry> list_;
};

/// Pins and maps memory (`ib_umem_get`, R-UM-1); it may be written unless `access` is read-only.
/// InvalidArgument: no bytes, or a range that wraps; PermissionDenied: the process may lock
/// nothing; OutOfMemory: more than it may lock; BadAddress: a page is missing or may not be
/// written. Nothing is pinned on failure.
Result<std::unique_ptr<Umem>> get_umem(Device& device, AddressSpace& space, std::uint64_t address,
                                       std::uint64_t length, verbs::AccessFlags access);

/// The largest page size in `sizes` (bit n: 2^n bytes) by which a device can show all of the region
/// from `iova` on, each page in one piece (`ib_umem_find_best_pgsz`, R-UM-3). 0: none; never with
/// sizes that include the process's page or smaller ones, where the offsets in a page agree.
[[nodiscard]] std::uint64_t best_page_size(const Umem& umem, std::uint64_t sizes,
                                           std::uint64_t iova);

}  // namespace weft::core
