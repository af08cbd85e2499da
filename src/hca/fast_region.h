#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "hca/memory_region.h"
#include "hca/paged_memory.h"
#include "hca/signed_memory.h"

namespace weft::hca {

/// A region that is registered by a work request (IBTA vol 1 §10.6.3.6, fast register): memory is
/// mapped by a call, shown to the network by REG_MR under a key whose low byte is the consumer's,
/// and hidden again by LOCAL_INV or a peer's SEND with invalidate; then the next may be mapped.
/// Made and changed by MemoryTable; lookups see what is shown now or nothing.
class FastRegion {
 public:
  FastRegion(ProtectionDomain& pd, std::uint32_t index, std::uint32_t max_pieces)
      : pd_(pd), index_(index), max_pieces_(max_pieces) {}

  [[nodiscard]] ProtectionDomain& pd() const { return pd_; }
  /// Entries of the longest list that it takes.
  [[nodiscard]] std::uint32_t max_pieces() const { return max_pieces_; }
  /// With the low byte 0.
  [[nodiscard]] std::uint32_t key() const { return index_ << kKeyIndexShift; }

 private:
  friend class MemoryTable;
  struct Mapping {
    MemoryRegion region;
    PagedMemory pages;
    std::unique_ptr<SignedMemory> signed_memory;  // which `pages` shows, of an integrity region
  };

  ProtectionDomain& pd_;
  const std::uint32_t index_;
  const std::uint32_t max_pieces_;
  // Under the table's lock.
  std::unique_ptr<Mapping> mapped_;                // by the newest call, for the next REG_MR
  std::unique_ptr<Mapping> shown_;                 // in the table: registered, or invalidated since
  std::vector<std::unique_ptr<Mapping>> retired_;  // that a lookup may still hold
};

}  // namespace weft::hca
