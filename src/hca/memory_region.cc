#include "hca/memory_region.h"
#include "base/assert.h"
#include "hca/fast_region.h"
#include "hca/memory_window.h"
#include "hca/placement.h"
#include "hca/planted_bug.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <mutex>

namespace weft::hca {
namespace {

constexpr std::size_t kWord = 8;

/// What reads of the null region return. A train is the longest single lookup. Never written.
constinit std::array<std::byte, 65'536> zeros{};

constexpr AccessFlags kWrites =
    AccessFlags{Access::LocalWrite} | Access::RemoteWrite | Access::RemoteAtomic;

constexpr AccessFlags kRemote =
    AccessFlags{Access::RemoteRead} | Access::RemoteWrite | Access::RemoteAtomic;

Result<void> check_region(std::uint64_t iova, std::size_t length, AccessFlags access) {
  if ((access.has(Access::RemoteWrite) || access.has(Access::RemoteAtomic)) &&
      !access.has(Access::LocalWrite)) {
    return fail(ErrorCode::InvalidArgument,
                "remote write and remote atomic need local write as well (access flags {:#x})",
                access.bits());
  }
  if (iova + length < iova) {
    return fail(ErrorCode::InvalidArgument,
                "a region of {} bytes at {:#x} wraps around the address space", length, iova);
  }
  return {};
}

/// Windows expose parts of a region, which therefore must not change (IBTA vol 1 §10.6.7.2.5).
Result<void> refuse_if_windowed(const MemoryRegion& region) {
  if (region.windows != 0) {
    return fail(ErrorCode::Busy,
                "{} memory windows are bound to the region; invalidate or deallocate those first",
                region.windows);
  }
  return {};
}

[[nodiscard]] bool is_aligned(const std::byte* address) {
  return reinterpret_cast<std::uintptr_t>(address) % kWord == 0;  // the address as a number
}

}  // namespace

MemoryTable::MemoryTable(std::uint32_t capacity, std::uint64_t seed, LockPolicy policy,
                         UserMemory* user_memory, std::uint32_t window_capacity)
    : user_memory_(user_memory),
      policy_(policy),
      lock_(policy),
      random_(seed),
      slots_(std::size_t{capacity} + 1),
      windows_(window_capacity) {
  free_.reserve(capacity);
  for (std::uint32_t index = capacity; index > 0; --index) {  // index 0 is not used
    free_.push_back(index);
  }
  free_windows_.reserve(window_capacity);
  for (std::uint32_t index = window_capacity; index > 0; --index) {
    free_windows_.push_back(index - 1);
  }
}

Result<MemoryRegion*> MemoryTable::add(ProtectionDomain& pd, std::uint64_t iova,
                                       std::span<std::byte> memory, AccessFlags access,
                                       Backing backing) {
  if (auto checked = check_region(iova, memory.size(), access); !checked) {
    return std::unexpected(checked.error());
  }
  const std::lock_guard guard{lock_};
  if (free_.empty()) {
    return fail(ErrorCode::OutOfMemory, "the device's {} memory regions are all in use",
                slots_.size() - 1);
  }
  // The most recently freed slot is reused first. The key part is random but never the previous
  // one, so a stale key fails.
  const std::uint32_t index = free_.back();
  free_.pop_back();
  Slot& slot = slots_[index];
  slot.key_part = static_cast<std::uint8_t>(slot.key_part + 1 + random_.below(255));
  const std::uint32_t key = index << kKeyIndexShift | slot.key_part;
  auto region = std::make_unique<MemoryRegion>(
      MemoryRegion{.pd = &pd,
                   .iova = iova,
                   .length = backing == Backing::Range ? memory.size() : ~std::uint64_t{0},
                   .memory = memory.data(),
                   .access = access,
                   .lkey = LKey{key},
                   .rkey = RKey{key},
                   .backing = backing,
                   .invalidated = false});
  MemoryRegion* const raw = region.release();
  slot.region.store(raw, std::memory_order_release);
  return raw;
}

Result<MemoryTable::Replaced> MemoryTable::replace(MemoryRegion& region, ProtectionDomain& pd,
                                                   std::uint64_t iova, std::span<std::byte> memory,
                                                   AccessFlags access) {
  if (auto checked = check_region(iova, memory.size(), access); !checked) {
    return std::unexpected(checked.error());
  }
  auto next = std::make_unique<MemoryRegion>(region);
  next->pd = &pd;
  next->iova = iova;
  next->memory = memory.data();
  next->length = memory.size();
  next->access = access;
  next->invalidated = false;
  const std::lock_guard guard{lock_};
  if (auto free = refuse_if_windowed(region); !free) {
    return std::unexpected(free.error());
  }
  auto& slot = slots_[region.lkey.value() >> kKeyIndexShift].region;
  WEFT_ASSERT(slot.load(std::memory_order_relaxed) == &region,
              "the region is the one with this key");
  slot.store(next.get(), std::memory_order_release);
  return Replaced{.now = next.release(), .before = std::unique_ptr<MemoryRegion>{&region}};
}

std::optional<MemoryRegion> MemoryTable::describe(LKey lkey) {
  const std::lock_guard guard{lock_};
  const std::uint32_t index = lkey.value() >> kKeyIndexShift;
  const MemoryRegion* const region =
      index < slots_.size() ? slots_[index].region.load(std::memory_order_relaxed) : nullptr;
  return region == nullptr || region->lkey != lkey ? std::nullopt : std::optional{*region};
}

Result<std::unique_ptr<MemoryRegion>> MemoryTable::remove(MemoryRegion& region) {
  const std::lock_guard guard{lock_};
  if (auto free = refuse_if_windowed(region); !free) {
    return std::unexpected(free.error());
  }
  const std::uint32_t index = region.lkey.value() >> kKeyIndexShift;
  WEFT_ASSERT(slots_[index].region.load(std::memory_order_relaxed) == &region,
              "the region is the one with this key");
  slots_[index].region.store(nullptr, std::memory_order_release);
  free_.push_back(index);
  return std::unique_ptr<MemoryRegion>{&region};
}

MemoryTable::~MemoryTable() {
  for (Slot& slot : slots_) {
    if (slot.fast == nullptr) {
      delete slot.region.load(std::memory_order_relaxed);
    }
  }
  for (auto& import : imports_) {
    delete import.load(std::memory_order_relaxed);
  }
  for (auto& window : windows_) {
    delete window.load(std::memory_order_relaxed);
  }
}

MemoryTable::Found MemoryTable::check(const ProtectionDomain& pd, std::uint32_t key,
                                      std::uint64_t address, std::uint64_t length,
                                      AccessFlags needed) const {
  if (length == 0) {
    return {};
  }
  const std::uint32_t index = key >> kKeyIndexShift;
  const MemoryRegion* region =
      index < slots_.size() ? slots_[index].region.load(std::memory_order_acquire) : nullptr;
  if (region == nullptr || region->lkey.value() != key) {
    return check_imports(KeyFault::NoSuchKey, pd, key, address, length, needed);
  }
  if (region->pd != &pd) {
    return check_imports(KeyFault::OtherPd, pd, key, address, length, needed);
  }
  if (region->invalidated) {
    return {.fault = KeyFault::Invalidated, .memory = {}};
  }
  return within(*region, address, length, needed);
}

std::optional<PlaceableMemory> MemoryTable::find_placeable(const ProtectionDomain& pd,
                                                           RKey rkey) const {
  const std::uint32_t index = rkey.value() >> kKeyIndexShift;
  const MemoryRegion* const region =
      index < slots_.size() ? slots_[index].region.load(std::memory_order_acquire) : nullptr;
  if (region == nullptr || region->rkey != rkey || region->pd != &pd ||
      region->access.has(Access::OnDemand) || region->backing != Backing::Range ||
      region->pages != nullptr) {
    return std::nullopt;
  }
  region->note_grant();
  std::atomic_thread_fence(std::memory_order_seq_cst);  // see was_granted()
  if (region->invalidated) {
    return std::nullopt;
  }
  return PlaceableMemory{.rkey = rkey,
                         .iova = region->iova,
                         .length = region->length,
                         .memory = region->memory,
                         .rights = region->access & kRemote,
                         .region = region};
}

/// Whoever invalidates does that first and then asks, as find_placeable() notes first and then
/// looks: one of the two sees the other's store.
bool MemoryTable::was_granted(RKey rkey) const {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const std::uint32_t index = rkey.value() >> kKeyIndexShift;
  const MemoryRegion* const region =
      index < slots_.size() ? slots_[index].region.load(std::memory_order_acquire) : nullptr;
  return region != nullptr && region->rkey == rkey && region->was_granted();
}

MemoryTable::Found MemoryTable::within(const MemoryRegion& region, std::uint64_t address,
                                       std::uint64_t length, AccessFlags needed) const {
  if (planted(PlantedBug::KeyRangeNotChecked)) {
    return {
        .fault = KeyFault::None, .memory = {region.memory + (address - region.iova), length}
    };
  }
  if (address < region.iova || length > region.length ||
      address - region.iova > region.length - length) {
    return {.fault = KeyFault::OutOfRange, .memory = {}};
  }
  if (!region.access.has_all(needed)) {
    return {.fault = KeyFault::MissingAccess, .memory = {}};
  }
  if (region.access.has(Access::OnDemand) || region.backing != Backing::Range) [[unlikely]] {
    return on_demand(region, address, length, needed);
  }
  if (region.pages != nullptr) [[unlikely]] {
    return in_pages(region, address - region.iova, length, needed);
  }
  return {
      .fault = KeyFault::None, .memory = {region.memory + (address - region.iova), length}
  };
}

/// In one piece if it is; an atomic must be.
MemoryTable::Found MemoryTable::in_pages(const MemoryRegion& region, std::uint64_t offset,
                                         std::uint64_t length, AccessFlags needed) {
  if (region.pages->signed_memory() != nullptr) {
    return {.fault = needed.has(Access::RemoteAtomic) ? KeyFault::MissingAccess : KeyFault::None,
            .memory = {},
            .pages = region.pages,
            .offset = offset};
  }
  const std::span<std::byte> first = region.pages->first_of(offset, length);
  if (first.size() == length) {
    return {.fault = KeyFault::None, .memory = first};
  }
  if (needed.has(Access::RemoteAtomic)) {
    return {.fault = KeyFault::OutOfRange, .memory = {}};
  }
  return {.fault = KeyFault::None, .memory = {}, .pages = region.pages, .offset = offset};
}

MemoryTable::Found MemoryTable::on_demand(const MemoryRegion& region, std::uint64_t address,
                                          std::uint64_t length, AccessFlags needed) const {
  if (region.backing == Backing::ExporterPrivate) {
    return {.fault = KeyFault::OtherProcess, .memory = {}};
  }
  if (region.backing == Backing::Nothing) {
    if (length > zeros.size()) {
      return {.fault = KeyFault::OutOfRange, .memory = {}};
    }
    return {.fault = KeyFault::None,
            .memory = std::span{zeros}.first(length),
            .discards = needed.has(Access::LocalWrite)};
  }
  std::byte* const first = region.backing == Backing::AddressSpace
                               ? std::bit_cast<std::byte*>(address)
                               : region.memory + (address - region.iova);
  const std::span memory{first, length};
  const bool for_writing = (needed & kWrites).bits() != 0;
  if (!fault_in(memory, for_writing)) {
    return {.fault = KeyFault::OutOfRange, .memory = {}};
  }
  return {.fault = KeyFault::None, .memory = memory};
}

MemoryTable::Found MemoryTable::find(const ProtectionDomain& pd, LKey lkey, std::uint64_t address,
                                     std::uint64_t length, AccessFlags needed) const {
  return check(pd, lkey.value(), address, length, needed);
}

MemoryTable::Found MemoryTable::find(const ProtectionDomain& pd, RKey rkey, std::uint64_t address,
                                     std::uint64_t length, AccessFlags needed, Qpn qpn) const {
  if (rkey.value() >> kKeyIndexShift >= slots_.size() && length != 0) [[unlikely]] {
    return find_in_window(pd, qpn, rkey, address, length, needed);
  }
  return check(pd, rkey.value(), address, length, needed);
}

KeyFault MemoryTable::invalidate(const ProtectionDomain& pd, RKey rkey, Qpn qpn) {
  const std::lock_guard guard{lock_};
  const std::uint32_t index = rkey.value() >> kKeyIndexShift;
  if (index >= slots_.size()) {
    return invalidate_window(pd, qpn, rkey);
  }
  MemoryRegion* const region = slots_[index].region.load(std::memory_order_acquire);
  if (region == nullptr || region->rkey != rkey) {
    return KeyFault::NoSuchKey;
  }
  if (region->pd != &pd) {
    return KeyFault::OtherPd;
  }
  if (region->windows != 0) {
    return KeyFault::CannotInvalidate;
  }
  region->invalidated = true;
  return KeyFault::None;
}

void place_last_bytes_atomically(std::span<std::byte> to, ByteSpan from) {
  WEFT_DEBUG_ASSERT(to.size() >= from.size(), "the length was checked");
  if (planted(PlantedBug::LastByteNotPlaced) && !from.empty()) {
    copy_bytes(to, from.first(from.size() - 1));
    return;
  }
  if (from.size() >= kWord && is_aligned(to.data() + from.size() - kWord)) {
    const std::size_t body = from.size() - kWord;
    std::uint64_t tail = 0;
    std::memcpy(&tail, from.data() + body, kWord);
    copy_bytes(to, from.first(body));
    void* const place = to.data() + body;
    std::atomic_ref<std::uint64_t>{*static_cast<std::uint64_t*>(place)}.store(
        tail, std::memory_order_release);
    return;
  }
  if (from.empty()) {
    return;
  }
  const std::size_t body = from.size() - 1;  // unaligned end: only its last byte
  copy_bytes(to, from.first(body));
  void* const place = to.data() + body;
  std::atomic_ref<unsigned char>{*static_cast<unsigned char*>(place)}.store(
      std::to_integer<unsigned char>(from[body]), std::memory_order_release);
}

}  // namespace weft::hca
