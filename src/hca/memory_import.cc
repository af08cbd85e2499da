// Regions of other processes, imported with their PD (ibv_import_mr(3)).

#include <algorithm>
#include <mutex>

#include "hca/hca.h"
#include "hca/hca_state.h"
#include "hca/memory_region.h"

namespace weft::hca {

Result<MemoryRegion*> MemoryTable::import(ProtectionDomain& pd, RKey key, std::uint64_t iova,
                                          std::uint64_t length, std::byte* memory,
                                          AccessFlags access) {
  if (iova + length < iova) {
    return fail(ErrorCode::InvalidArgument,
                "a region of {} bytes at {:#x} wraps around the address space", length, iova);
  }
  const std::lock_guard guard{lock_};
  const auto free = std::ranges::find_if(
      imports_, [](const auto& place) { return place.load(std::memory_order_relaxed) == nullptr; });
  if (free == imports_.end()) {
    return fail(ErrorCode::OutOfMemory, "{} regions of other processes are imported already",
                kMaxImports);
  }
  auto region = std::make_unique<MemoryRegion>(
      MemoryRegion{.pd = &pd,
                   .iova = iova,
                   .length = length,
                   .memory = memory,
                   .access = access,
                   .lkey = LKey{key.value()},
                   .rkey = key,
                   .backing = memory == nullptr ? Backing::ExporterPrivate : Backing::Range,
                   .invalidated = false});
  const auto place = static_cast<std::size_t>(free - imports_.begin());
  MemoryRegion* const raw = region.release();
  free->store(raw, std::memory_order_release);
  imports_end_.store(std::max(imports_end_.load(std::memory_order_relaxed), place + 1),
                     std::memory_order_release);
  return raw;
}

std::unique_ptr<MemoryRegion> MemoryTable::remove_import(MemoryRegion& region) {
  const std::lock_guard guard{lock_};
  const auto place = std::ranges::find_if(imports_, [&](const auto& import) {
    return import.load(std::memory_order_relaxed) == &region;
  });
  if (place == imports_.end()) {
    return nullptr;
  }
  place->store(nullptr, std::memory_order_release);
  return std::unique_ptr<MemoryRegion>{&region};
}

MemoryTable::Found MemoryTable::check_imports(KeyFault otherwise, const ProtectionDomain& pd,
                                              std::uint32_t key, std::uint64_t address,
                                              std::uint64_t length, AccessFlags needed) const {
  const MemoryRegion* const region = import_of(pd, key);
  return region != nullptr ? within(*region, address, length, needed)
                           : Found{.fault = otherwise, .memory = {}};
}

const MemoryRegion* MemoryTable::import_of(const ProtectionDomain& pd, std::uint32_t key) const {
  const std::size_t end = imports_end_.load(std::memory_order_acquire);
  for (std::size_t place = 0; place < end; ++place) {
    const MemoryRegion* const region = imports_[place].load(std::memory_order_acquire);
    if (region != nullptr && region->rkey.value() == key && region->pd == &pd) {
      return region;
    }
  }
  return nullptr;
}

Result<MemoryRegion*> Hca::import_memory(ProtectionDomain& pd, RKey key, std::uint64_t iova,
                                         std::uint64_t length, std::byte* memory,
                                         AccessFlags access) {
  auto region = state_->memory.import(pd, key, iova, length, memory, access);
  if (region) {
    pd.uses.fetch_add(1, std::memory_order_relaxed);
  }
  return region;
}

void Hca::remove_memory(MemoryRegion& region) {
  ProtectionDomain* const pd = region.pd;
  const auto forgotten = state_->memory.remove_import(region);
  if (forgotten != nullptr) {
    fence_qps();
    pd->uses.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace weft::hca
