#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/lock.h"
#include "base/random.h"
#include "base/result.h"
#include "hca/types.h"

namespace weft::hca {

/// Protection domain: an identity that objects share (IBTA vol 1 §10.2.3).
struct ProtectionDomain {
  std::atomic<std::uint32_t>
      uses{};  ///< objects inside; deallocation is refused while not 0 (R-PD-2)
};

/// A registered memory region. `iova` is the address that work requests and peers use; `memory` is
/// where its first byte is mapped in this process. Which backing it has (private memory or a shared
/// file) is the driver's knowledge: engines only copy through the functions of MemoryTable.
struct MemoryRegion {
  ProtectionDomain* pd{};
  std::uint64_t iova{};
  std::uint64_t length{};
  std::byte* memory{};
  AccessFlags access;
  LKey lkey{};
  RKey rkey{};
  bool invalidated{};
};

/// Why a key or a range was refused; each maps to one rule of IBTA vol 1 §10.6.3 / C9-88.
enum class KeyFault : std::uint8_t {
  None,
  NoSuchKey,
  OtherPd,
  Invalidated,
  OutOfRange,
  MissingAccess
};

/// The keys of one HCA in one process: the upper 24 bits index, the low 8 are a random part, so
/// that stale and guessed keys fail. Look-ups are made under a QP's lock and stay valid until that
/// lock is released: deregistration removes the slot and then passes through every QP's lock (Hca
/// does), so the data path needs no reference counts.
class MemoryTable {
 public:
  MemoryTable(std::uint32_t capacity, std::uint64_t seed, LockPolicy policy);
  ~MemoryTable();
  MemoryTable(const MemoryTable&) = delete;
  MemoryTable& operator=(const MemoryTable&) = delete;

  /// Registers; refuses remote write or atomic without local write, a wrapping range, a full table.
  Result<MemoryRegion*> add(ProtectionDomain& pd, std::uint64_t iova, std::span<std::byte> memory,
                            AccessFlags access);

  /// Takes the region out of the table; the caller fences and then frees it.
  std::unique_ptr<MemoryRegion> remove(MemoryRegion& region);

  /// Local access through an lkey, or remote access through an rkey: on success `memory` is the
  /// bytes [address, address + length). A zero length is never checked (C9-88).
  struct Found {
    KeyFault fault{KeyFault::None};
    std::span<std::byte> memory;
  };
  [[nodiscard]] Found find(const ProtectionDomain& pd, LKey lkey, std::uint64_t address,
                           std::uint64_t length, AccessFlags needed) const;
  [[nodiscard]] Found find(const ProtectionDomain& pd, RKey rkey, std::uint64_t address,
                           std::uint64_t length, AccessFlags needed) const;

  /// Ends the validity of a key until it is registered again (LOCAL_INV, SEND with invalidate;
  /// R-RVT-8).
  [[nodiscard]] KeyFault invalidate(const ProtectionDomain& pd, RKey rkey);

 private:
  struct Slot {
    std::atomic<MemoryRegion*> region{};
    std::uint8_t key_part{};  // of the newest key
  };
  [[nodiscard]] Found check(const ProtectionDomain& pd, std::uint32_t key, std::uint64_t address,
                            std::uint64_t length, AccessFlags needed) const;

  PolicyLock lock_;
  Random random_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
};

/// Copies so that a poller of the last bytes sees everything before them: the body first, then the
/// final up to 8 bytes with one release store (T-RVT-8, DROPIN-ABI 2.9).
void place_last_bytes_last(std::span<std::byte> to, ByteSpan from);

}  // namespace weft::hca
