#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/identifiers.h"
#include "base/lock.h"
#include "base/random.h"
#include "base/result.h"
#include "hca/types.h"
#include "hca/user_memory.h"

namespace weft::hca {

class MemoryWindow;
enum class WindowType : std::uint8_t;

/// Where the index begins in a key; below it is the key part.
inline constexpr unsigned kKeyIndexShift = 8;

/// Protection domain: an identity that objects share (IBTA vol 1 §10.2.3).
struct ProtectionDomain {
  std::atomic<std::uint32_t>
      uses{};  ///< objects inside; deallocation is refused while not 0 (R-PD-2)
};

/// What lies behind a region.
enum class Backing : std::uint8_t {
  Range,            ///< memory of the program
  AddressSpace,     ///< all of it, at the program's own addresses: the implicit region of R-ODP-2
  Nothing,          ///< the null region: reads as zeros, discards what is written
  ExporterPrivate,  ///< private memory of the process that the region was imported from
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
  Backing backing{Backing::Range};
  bool invalidated{};
  std::uint32_t windows{};  ///< bound to it; under the table's lock
};

/// Why a key or a range was refused; each maps to one rule of IBTA vol 1 §10.6.3 / C9-88.
enum class KeyFault : std::uint8_t {
  None,
  NoSuchKey,
  OtherPd,
  OtherQp,  ///< a window of type 2 that is bound to another one
  Invalidated,
  OutOfRange,    ///< also: the program has no memory there (on-demand paging)
  OtherProcess,  ///< an imported region whose memory this process cannot reach
  MissingAccess,
  CannotInvalidate,  ///< a window of type 1, or a region with windows bound to it
};

/// What a region, and the QP, must have been given for a FLUSH with these wire::kPlacement bits.
[[nodiscard]] constexpr AccessFlags access_to_flush(std::uint32_t placement) {
  AccessFlags needed;
  if ((placement & wire::kPlacementGlobal) != 0) {
    needed |= Access::FlushGlobal;
  }
  if ((placement & wire::kPlacementPersistent) != 0) {
    needed |= Access::FlushPersistent;
  }
  return needed;
}

/// The keys of one HCA in one process, of its regions and its windows: the upper 24 bits index, the
/// low 8 are a random part, so that stale and guessed keys fail. Look-ups are made under a QP's
/// lock and stay valid until that lock is released: deregistration removes the slot and then passes
/// through every QP's lock (Hca does), so the data path needs no reference counts.
class MemoryTable {
 public:
  /// Without `user_memory` every page is taken to be present.
  MemoryTable(std::uint32_t capacity, std::uint64_t seed, LockPolicy policy,
              UserMemory* user_memory = nullptr, std::uint32_t window_capacity = 0);
  ~MemoryTable();
  MemoryTable(const MemoryTable&) = delete;
  MemoryTable& operator=(const MemoryTable&) = delete;

  /// Registers; refuses remote write or atomic without local write, a wrapping range, a full table.
  Result<MemoryRegion*> add(ProtectionDomain& pd, std::uint64_t iova, std::span<std::byte> memory,
                            AccessFlags access, Backing backing = Backing::Range);

  /// Puts a region with other attributes in the place of one, under the same key; hands out the new
  /// one and the old, which the caller frees after it fenced. Refuses what add() does, and while
  /// windows are bound to it.
  struct Replaced {
    MemoryRegion* now{};
    std::unique_ptr<MemoryRegion> before;
  };
  Result<Replaced> replace(MemoryRegion& region, ProtectionDomain& pd, std::uint64_t iova,
                           std::span<std::byte> memory, AccessFlags access);

  /// Takes the region out of the table; the caller fences and then frees it. Refused while windows
  /// are bound to it (IBTA vol 1 §10.6.7.2.5).
  Result<std::unique_ptr<MemoryRegion>> remove(MemoryRegion& region);

  /// A region of another process under its own key, and where its memory is mapped here; null: it
  /// is not (memory_import.cc). Key and PD are what it is found by, after the table's own.
  Result<MemoryRegion*> import(ProtectionDomain& pd, RKey key, std::uint64_t iova,
                               std::uint64_t length, std::byte* memory, AccessFlags access);
  /// Takes it out of the table; the caller fences and then frees it.
  std::unique_ptr<MemoryRegion> remove_import(MemoryRegion& region);

  /// Policy: regions of other processes.
  static constexpr std::size_t kMaxImports = 1'024;

  /// A window that shows nothing yet.
  Result<MemoryWindow*> add_window(ProtectionDomain& pd, WindowType type);

  /// Takes the window, bound or not, out of the table; the caller fences and then frees it.
  std::unique_ptr<MemoryWindow> remove_window(MemoryWindow& window);

  /// What a bind work request of QP `qpn` asks for. Empty when it is done, else why not.
  [[nodiscard]] std::string_view bind(const ProtectionDomain& pd, Qpn qpn,
                                      const WindowBinding& binding);

  /// Local access through an lkey, or remote access through an rkey: on success `memory` is the
  /// bytes [address, address + length). A zero length is never checked (C9-88). A window of type 2
  /// is found only by a request to the QP that it is bound to.
  struct Found {
    KeyFault fault{KeyFault::None};
    std::span<std::byte> memory;
    bool discards{};  // the null region: nothing may be written to `memory`, which holds zeros
  };
  [[nodiscard]] Found find(const ProtectionDomain& pd, LKey lkey, std::uint64_t address,
                           std::uint64_t length, AccessFlags needed) const;
  [[nodiscard]] Found find(const ProtectionDomain& pd, RKey rkey, std::uint64_t address,
                           std::uint64_t length, AccessFlags needed, Qpn qpn = {}) const;

  /// What a FLUSH is about: a range, of which no length is too short to be looked at, or, without
  /// one, all that the key shows. Pages are not brought in.
  struct Range {
    std::uint64_t address{};
    std::uint64_t length{};
  };
  [[nodiscard]] Found find_to_flush(const ProtectionDomain& pd, RKey rkey,
                                    std::optional<Range> range, AccessFlags needed,
                                    Qpn qpn = {}) const;

  /// Ends the validity of a key until it is registered or bound again (LOCAL_INV, SEND with
  /// invalidate; R-RVT-8).
  [[nodiscard]] KeyFault invalidate(const ProtectionDomain& pd, RKey rkey, Qpn qpn = {});

  /// What an lkey stands for at this moment, for verbs that hold no QP's lock.
  [[nodiscard]] std::optional<MemoryRegion> describe(LKey lkey);

  [[nodiscard]] bool fault_in(std::span<std::byte> range, bool for_writing) const {
    return user_memory_ == nullptr || user_memory_->fault_in(range, for_writing);
  }

  /// Without `user_memory` all memory outlives everything.
  [[nodiscard]] bool persist(std::span<std::byte> range) const {
    return user_memory_ == nullptr || user_memory_->persist(range);
  }

 private:
  struct Slot {
    std::atomic<MemoryRegion*> region{};
    std::uint8_t key_part{};  // of the newest key
  };
  [[nodiscard]] Found check(const ProtectionDomain& pd, std::uint32_t key, std::uint64_t address,
                            std::uint64_t length, AccessFlags needed) const;
  [[nodiscard]] [[gnu::cold, gnu::noinline]] Found check_imports(
      KeyFault otherwise, const ProtectionDomain& pd, std::uint32_t key, std::uint64_t address,
      std::uint64_t length, AccessFlags needed) const;
  [[nodiscard]] Found within(const MemoryRegion& region, std::uint64_t address,
                             std::uint64_t length, AccessFlags needed) const;
  [[nodiscard]] Found on_demand(const MemoryRegion& region, std::uint64_t address,
                                std::uint64_t length, AccessFlags needed) const;

  [[nodiscard]] const MemoryRegion* import_of(const ProtectionDomain& pd, std::uint32_t key) const;

  // Windows (memory_window.cc).
  [[nodiscard]] MemoryWindow* window_at(std::uint32_t key) const;
  [[nodiscard]] KeyFault invalidate_window(const ProtectionDomain& pd, Qpn qpn, RKey rkey);
  [[gnu::noinline]] Found find_in_window(const ProtectionDomain& pd, Qpn qpn, RKey rkey,
                                         std::uint64_t address, std::uint64_t length,
                                         AccessFlags needed) const;

  UserMemory* user_memory_;
  PolicyLock lock_;
  Random random_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::vector<std::atomic<MemoryWindow*>> windows_;  // their key indices follow those of slots_
  std::vector<std::uint32_t> free_windows_;          // counted in windows_
  std::array<std::atomic<MemoryRegion*>, kMaxImports> imports_{};
  std::atomic<std::size_t> imports_end_{};  // beyond it there were never any
};

/// Copies so that a poller of the last bytes sees everything before them: the body first, then the
/// final up to 8 bytes with one release store (R-RVT-18, T-RVT-8).
void place_last_bytes_atomically(std::span<std::byte> to, ByteSpan from);

}  // namespace weft::hca
