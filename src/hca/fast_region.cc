#include "hca/fast_region.h"

#include <mutex>
#include <utility>

#include "base/assert.h"

namespace weft::hca {

/// Policy: mappings that are over, before all QPs are passed through so that they can be freed.
constexpr std::size_t kMostRetired = 16;

Result<FastRegion*> MemoryTable::add_fast(ProtectionDomain& pd, std::uint32_t max_pieces) {
  const std::lock_guard guard{lock_};
  if (free_.empty()) {
    return fail(ErrorCode::OutOfMemory, "the device's {} memory regions are all in use",
                slots_.size() - 1);
  }
  const std::uint32_t index = free_.back();
  free_.pop_back();
  slots_[index].fast = std::make_unique<FastRegion>(pd, index, max_pieces);
  return slots_[index].fast.get();
}

bool MemoryTable::map(FastRegion& region, std::uint64_t iova, PagedMemory memory) {
  auto mapping = std::make_unique<FastRegion::Mapping>();
  mapping->pages = std::move(memory);
  MemoryRegion& shown = mapping->region;
  shown.pd = &region.pd_;
  shown.iova = iova;
  shown.length = mapping->pages.length();
  if (mapping->pages.piece_count() == 1) {
    shown.memory = mapping->pages.first_of(0, shown.length).data();
  } else {
    shown.pages = &mapping->pages;
  }
  const std::lock_guard guard{lock_};
  region.mapped_ = std::move(mapping);
  return region.retired_.size() >= kMostRetired;
}

bool MemoryTable::map_signed(FastRegion& region, std::uint64_t iova, PagedMemory data,
                             PagedMemory metadata) {
  auto mapping = std::make_unique<FastRegion::Mapping>();
  mapping->signed_memory =
      std::make_unique<SignedMemory>(std::move(data), std::move(metadata), policy_);
  mapping->pages.show(*mapping->signed_memory);
  mapping->region.pd = &region.pd_;
  mapping->region.iova = iova;
  mapping->region.pages = &mapping->pages;
  const std::lock_guard guard{lock_};
  region.mapped_ = std::move(mapping);
  return region.retired_.size() >= kMostRetired;
}

std::string_view MemoryTable::sign(FastRegion& region,
                                   const verbs::SignatureAttributes& attributes) {
  const std::lock_guard guard{lock_};
  if (region.mapped_ == nullptr || region.mapped_->signed_memory == nullptr) {
    return "no data and protection information have been mapped since it was registered last";
  }
  SignedMemory& memory = *region.mapped_->signed_memory;
  const std::string_view refusal = memory.sign(attributes);
  region.mapped_->region.length = refusal.empty() ? memory.length() : 0;
  return refusal;
}

std::uint64_t MemoryTable::mapped_length(const FastRegion& region) {
  const std::lock_guard guard{lock_};
  return region.mapped_ != nullptr ? region.mapped_->region.length : 0;
}

verbs::SignatureStatus MemoryTable::take_signature_status(FastRegion& region) {
  const std::lock_guard guard{lock_};
  return region.shown_ != nullptr && region.shown_->signed_memory != nullptr
             ? region.shown_->signed_memory->take_status()
             : verbs::SignatureStatus{};
}

void MemoryTable::free_retired(FastRegion& region, std::size_t count) {
  const std::lock_guard guard{lock_};
  region.retired_.erase(region.retired_.begin(),
                        region.retired_.begin() + static_cast<std::ptrdiff_t>(count));
}

std::size_t MemoryTable::retired(const FastRegion& region) {
  const std::lock_guard guard{lock_};
  return region.retired_.size();
}

std::string_view MemoryTable::register_fast(const ProtectionDomain& pd, RKey key,
                                            AccessFlags access) {
  constexpr AccessFlags kPossible = AccessFlags{Access::LocalWrite} | Access::RemoteWrite |
                                    Access::RemoteRead | Access::RemoteAtomic |
                                    Access::RelaxedOrdering;
  const std::uint32_t index = key.value() >> kKeyIndexShift;
  const std::lock_guard guard{lock_};
  FastRegion* const region = index < slots_.size() ? slots_[index].fast.get() : nullptr;
  if (region == nullptr) {
    return "no region for registration by work request has this key";
  }
  if (&region->pd_ != &pd) {
    return "the region is of another PD than the QP";
  }
  if (region->mapped_ == nullptr) {
    return "no memory has been mapped since it was registered last";
  }
  if (region->mapped_->signed_memory != nullptr && region->mapped_->region.length == 0) {
    return "its memory has not been signed: it was mapped for integrity";
  }
  if (region->shown_ != nullptr && !region->shown_->region.invalidated) {
    return "it is registered, and has not been invalidated";
  }
  if (!access.without(kPossible).empty()) {
    return "it cannot have this access";
  }
  if ((access.has(Access::RemoteWrite) || access.has(Access::RemoteAtomic)) &&
      !access.has(Access::LocalWrite)) {
    return "remote write and remote atomic need local write as well";
  }
  if (region->shown_ != nullptr) {
    region->retired_.push_back(std::move(region->shown_));
  }
  region->shown_ = std::move(region->mapped_);
  MemoryRegion& shown = region->shown_->region;
  shown.access = access;
  shown.lkey = LKey{key.value()};
  shown.rkey = key;
  slots_[index].key_part = static_cast<std::uint8_t>(key.value());
  slots_[index].region.store(&shown, std::memory_order_release);
  return {};
}

std::unique_ptr<FastRegion> MemoryTable::remove_fast(FastRegion& region) {
  const std::lock_guard guard{lock_};
  Slot& slot = slots_[region.index_];
  WEFT_ASSERT(slot.fast.get() == &region, "the region is the one at this index");
  slot.region.store(nullptr, std::memory_order_release);
  free_.push_back(region.index_);
  return std::move(slot.fast);
}

void place(const MemoryTable::Found& found, ByteSpan payload) {
  if (found.pages == nullptr) {
    place_last_bytes_atomically(found.memory, payload);
    return;
  }
  if (SignedMemory* const memory = found.pages->signed_memory()) {
    memory->place(found.offset, payload, place_last_bytes_atomically);
    return;
  }
  found.pages->visit(found.offset, payload.size(), [&](std::span<std::byte> piece) {
    place_last_bytes_atomically(piece, payload.first(piece.size()));
    payload = payload.subspan(piece.size());
  });
}

}  // namespace weft::hca
