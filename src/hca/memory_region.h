#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
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
#include "verbs/signature.h"

namespace weft::hca {

class FastRegion;
class MemoryWindow;
class PagedMemory;
struct PlaceableMemory;
enum class WindowType : std::uint8_t;

/// A key consists of an index above this bit and a key part below it.
inline constexpr unsigned kKeyIndexShift = 8;

/// Protection domain: objects may be used together only if they share it (IBTA vol 1 §10.2.3).
struct ProtectionDomain {
  std::atomic<std::uint32_t>
      uses{};  ///< objects that belong to it; deallocation is refused while not 0 (R-PD-2)
};

/// The kind of memory behind a region.
enum class Backing : std::uint8_t {
  Range,            ///< a range of the program's memory
  AddressSpace,     ///< the program's whole address space: the implicit region of R-ODP-2
  Nothing,          ///< the null region: reads as zeros, discards writes
  ExporterPrivate,  ///< private memory of the process from which the region was imported
};

/// A registered memory region (IBTA vol 1 §10.6). `iova` is the address by which work requests and
/// peers name its first byte; `memory` is where that byte is mapped in this process. Only the
/// driver knows whether the pages are private or those of a shared file: engines copy through
/// MemoryTable only.
struct MemoryRegion {
  ProtectionDomain* pd{};
  std::uint64_t iova{};
  std::uint64_t length{};
  std::byte* memory{};
  const PagedMemory* pages{};  ///< in place of `memory`, where it is not in one piece
  AccessFlags access;
  LKey lkey{};
  RKey rkey{};
  Backing backing{Backing::Range};
  bool invalidated{};
  std::uint32_t windows{};  ///< memory windows bound to it; guarded by the table's lock

  /// Whether a peer was ever allowed to place into it by itself (hca/placement.h). Any thread.
  [[nodiscard]] bool was_granted() const {
    return std::atomic_ref{granted}.load(std::memory_order_relaxed);
  }
  void note_grant() const { std::atomic_ref{granted}.store(true, std::memory_order_relaxed); }
  mutable bool granted{};
};

/// Why an access through a key was refused. Each value is one rule of IBTA vol 1 §10.6.3 and C9-88.
enum class KeyFault : std::uint8_t {
  None,
  NoSuchKey,
  OtherPd,
  OtherQp,  ///< a window of type 2 that is bound to another QP
  Invalidated,
  OutOfRange,    ///< also: no such memory in the program (on-demand paging)
  OtherProcess,  ///< an imported region that is not mapped in this process
  MissingAccess,
  CannotInvalidate,  ///< a window of type 1, or a region with windows bound to it
};

/// The access rights that a region and the QP need for a FLUSH with these wire::kPlacement bits.
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

/// The keys of one HCA in one process, for memory regions and memory windows. The upper 24 bits of
/// a key are an index; the low 8 are random, so that stale and guessed keys fail.
///
/// Threads: any. A lookup is made under a QP's lock and its result stays valid until that lock is
/// released: deregistration first clears the slot and then passes through every QP's lock (see
/// Hca), so the data path needs no reference counts.
class MemoryTable {
 public:
  /// Without `user_memory` all pages count as present.
  MemoryTable(std::uint32_t capacity, std::uint64_t seed, LockPolicy policy,
              UserMemory* user_memory = nullptr, std::uint32_t window_capacity = 0);
  ~MemoryTable();
  MemoryTable(const MemoryTable&) = delete;
  MemoryTable& operator=(const MemoryTable&) = delete;

  /// Registers a region. Refuses remote write or atomic access without local write, a range that
  /// wraps, and a full table.
  Result<MemoryRegion*> add(ProtectionDomain& pd, std::uint64_t iova, std::span<std::byte> memory,
                            AccessFlags access, Backing backing = Backing::Range);

  /// Replaces a region by one with other attributes under the same keys. Returns both; the caller
  /// frees the old one once no QP uses it any more. Refuses what add() refuses, and a region with
  /// windows bound to it.
  struct Replaced {
    MemoryRegion* now{};
    std::unique_ptr<MemoryRegion> before;
  };
  Result<Replaced> replace(MemoryRegion& region, ProtectionDomain& pd, std::uint64_t iova,
                           std::span<std::byte> memory, AccessFlags access);

  /// Removes a region from the table; the caller frees it once no QP uses it any more. Refused
  /// while windows are bound to it (IBTA vol 1 §10.6.7.2.5).
  Result<std::unique_ptr<MemoryRegion>> remove(MemoryRegion& region);

  /// Adds a region of another process under its own key (memory_import.cc). `memory` is where it is
  /// mapped here, or null if it is not. Imports are searched after this table's own keys, by key
  /// and PD.
  Result<MemoryRegion*> import(ProtectionDomain& pd, RKey key, std::uint64_t iova,
                               std::uint64_t length, std::byte* memory, AccessFlags access);
  /// Removes an imported region; the caller frees it once no QP uses it any more.
  std::unique_ptr<MemoryRegion> remove_import(MemoryRegion& region);

  /// Policy: most imported regions of a process.
  static constexpr std::size_t kMaxImports = 1'024;

  /// Allocates an unbound window.
  Result<MemoryWindow*> add_window(ProtectionDomain& pd, WindowType type);

  /// Removes a window, bound or not; the caller frees it once no QP uses it any more.
  std::unique_ptr<MemoryWindow> remove_window(MemoryWindow& window);

  /// Executes a bind work request of QP `qpn`. Returns the reason for a refusal, empty on success.
  [[nodiscard]] std::string_view bind(const ProtectionDomain& pd, Qpn qpn,
                                      const WindowBinding& binding);

  /// Result of a lookup: without a fault, `memory` is the bytes [address, address + length).
  struct Found {
    KeyFault fault{KeyFault::None};
    std::span<std::byte> memory;
    bool discards{};  // the null region: nothing may be written to `memory`, which holds zeros
    const PagedMemory* pages{};  // in place of `memory`, where that is not in one piece
    std::uint64_t offset{};      // in `pages`
  };
  /// Looks up local access through an L_Key. A length of zero is not checked (C9-88).
  [[nodiscard]] Found find(const ProtectionDomain& pd, LKey lkey, std::uint64_t address,
                           std::uint64_t length, AccessFlags needed) const;
  /// Looks up remote access through an R_Key, by a request to QP `qpn`. A length of zero is not
  /// checked (C9-88). A window of type 2 is found only by requests to the QP that it is bound to.
  [[nodiscard]] Found find(const ProtectionDomain& pd, RKey rkey, std::uint64_t address,
                           std::uint64_t length, AccessFlags needed, Qpn qpn = {}) const;

  /// Looks up the range of a FLUSH, whose key is checked even if its length is zero; without a
  /// range, everything that the key gives access to. Does not fault in pages.
  struct Range {
    std::uint64_t address{};
    std::uint64_t length{};
  };
  [[nodiscard]] Found find_to_flush(const ProtectionDomain& pd, RKey rkey,
                                    std::optional<Range> range, AccessFlags needed,
                                    Qpn qpn = {}) const;

  /// The region that a peer may place into by itself under this key (hca/placement.h): all of it is
  /// in one piece and present. Windows and regions that are paged on demand, imported or registered
  /// by work requests are none. Notes that it was granted.
  [[nodiscard]] std::optional<PlaceableMemory> find_placeable(const ProtectionDomain& pd,
                                                              RKey rkey) const;

  /// True if the key is that of a region which was granted to peers.
  [[nodiscard]] bool was_granted(RKey rkey) const;

  /// Invalidates a key until it is registered or bound again (LOCAL_INV, SEND with Invalidate;
  /// R-RVT-8).
  [[nodiscard]] KeyFault invalidate(const ProtectionDomain& pd, RKey rkey, Qpn qpn = {});

  // Regions that are registered by work requests (fast_region.cc).
  Result<FastRegion*> add_fast(ProtectionDomain& pd, std::uint32_t max_pieces);
  /// What the next REG_MR shows from `iova` on. True: retired() mappings have gathered, to be freed
  /// after a fence.
  [[nodiscard]] bool map(FastRegion& region, std::uint64_t iova, PagedMemory memory);
  /// The same with protection information, for sign() to say what becomes of that.
  [[nodiscard]] bool map_signed(FastRegion& region, std::uint64_t iova, PagedMemory data,
                                PagedMemory metadata);
  /// Empty when what was mapped is what the attributes are for, else why not.
  [[nodiscard]] std::string_view sign(FastRegion& region,
                                      const verbs::SignatureAttributes& attributes);
  /// Bytes of what the next REG_MR shows.
  [[nodiscard]] std::uint64_t mapped_length(const FastRegion& region);
  /// Of what was registered last, whether or not it was invalidated since.
  [[nodiscard]] verbs::SignatureStatus take_signature_status(FastRegion& region);
  [[nodiscard]] std::size_t retired(const FastRegion& region);
  void free_retired(FastRegion& region, std::size_t count);
  /// What a REG_MR asks for. Empty when it is done, else why not.
  [[nodiscard]] std::string_view register_fast(const ProtectionDomain& pd, RKey key,
                                               AccessFlags access);
  /// Takes the region, registered or not, out of the table; the caller fences and then frees it.
  std::unique_ptr<FastRegion> remove_fast(FastRegion& region);

  /// What an lkey stands for at this moment, for verbs that hold no QP's lock.
  [[nodiscard]] std::optional<MemoryRegion> describe(LKey lkey);

  /// Calls `visit(const MemoryRegion&)` for the own regions, with the table's lock.
  template <class Visit>
  void for_each(Visit visit) {
    const std::lock_guard guard{lock_};
    for (const Slot& slot : slots_) {
      if (const MemoryRegion* const region = slot.region.load(std::memory_order_relaxed);
          region != nullptr) {
        visit(*region);
      }
    }
  }

  /// Makes the pages of `range` present (UserMemory::fault_in).
  [[nodiscard]] bool fault_in(std::span<std::byte> range, bool for_writing) const {
    return user_memory_ == nullptr || user_memory_->fault_in(range, for_writing);
  }

  /// Makes `range` persistent (UserMemory::persist). Without `user_memory` all memory is
  /// persistent.
  [[nodiscard]] bool persist(std::span<std::byte> range) const {
    return user_memory_ == nullptr || user_memory_->persist(range);
  }

 private:
  struct Slot {
    std::atomic<MemoryRegion*> region{};
    std::unique_ptr<FastRegion> fast;  // whose mapping `region` is, if there is one
    std::uint8_t key_part{};           // of the newest key
  };
  [[nodiscard]] Found check(const ProtectionDomain& pd, std::uint32_t key, std::uint64_t address,
                            std::uint64_t length, AccessFlags needed) const;
  [[nodiscard]] [[gnu::cold, gnu::noinline]] Found check_imports(
      KeyFault otherwise, const ProtectionDomain& pd, std::uint32_t key, std::uint64_t address,
      std::uint64_t length, AccessFlags needed) const;
  [[nodiscard]] Found within(const MemoryRegion& region, std::uint64_t address,
                             std::uint64_t length, AccessFlags needed) const;
  [[nodiscard]] static Found in_pages(const MemoryRegion& region, std::uint64_t offset,
                                      std::uint64_t length, AccessFlags needed);
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
  const LockPolicy policy_;
  PolicyLock lock_;
  Random random_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::vector<std::atomic<MemoryWindow*>> windows_;  // their key indices follow those of slots_
  std::vector<std::uint32_t> free_windows_;          // indices into windows_
  std::array<std::atomic<MemoryRegion*>, kMaxImports> imports_{};
  std::atomic<std::size_t> imports_end_{};  // no import was ever stored at or beyond this index
};

/// Copies `from` to `to` so that a program that polls the last bytes sees all the others when it
/// sees those: the body first, then the final 1 to 8 bytes by one release store (R-RVT-18,
/// T-RVT-8).
void place_last_bytes_atomically(std::span<std::byte> to, ByteSpan from);

/// The same to what a lookup of as many bytes has found.
void place(const MemoryTable::Found& found, ByteSpan payload);

}  // namespace weft::hca
