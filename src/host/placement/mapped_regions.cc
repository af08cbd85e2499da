#include "host/placement/mapped_regions.h"

#include <thread>
#include <utility>

namespace weft::host {

MappedRegions::~MappedRegions() {
  for (auto& region : regions_) {
    delete region.load(std::memory_order_relaxed);
  }
}

std::optional<std::byte*> MappedRegions::find(const PlacementGrant& grant) const {
  // Sequentially consistent, as put() and its look at claims: either this finds what was put, or
  // put() finds the claim.
  const Region* const region =
      regions_.at(PlacementMemory::index_of(grant.qpn, grant.rkey)).load(std::memory_order_seq_cst);
  return region != nullptr && region->is_of(grant) ? std::optional{region->mapping.first}
                                                   : std::nullopt;
}

bool MappedRegions::map(pid_t peer, const PlacementGrant& grant) {
  const std::lock_guard guard{changing_};
  const std::size_t slot = PlacementMemory::index_of(grant.qpn, grant.rkey);
  const Region* const known = regions_.at(slot).load(std::memory_order_relaxed);
  if (known != nullptr && known->is_of(grant)) {
    return false;  // another thread was quicker
  }
  auto region = std::make_unique<Region>(Region{.file = grant.file,
                                                .length = grant.length,
                                                .is_writable = grant.is_writable(),
                                                .mapping = {}});
  auto mapped =
      os::map_peer_file(peer, grant.file, grant.length,
                        grant.is_writable() ? os::Protection::ReadWrite : os::Protection::ReadOnly);
  if (mapped) {
    region->mapping = std::move(*mapped);
  }
  put(slot, std::move(region));
  return mapped.has_value();
}

/// Replaces what is there, which is freed when nobody uses it.
void MappedRegions::put(std::size_t slot, std::unique_ptr<Region> region) {
  const std::unique_ptr<Region> before{
      regions_.at(slot).exchange(region.release(), std::memory_order_seq_cst)};
  if (before != nullptr) {
    wait_for_claims();
  }
}

/// Each claim that is held now is given up once at least: a copy takes microseconds.
void MappedRegions::wait_for_claims() const {
  std::uint32_t held = claims_.load(std::memory_order_seq_cst);
  while (held != 0) {
    std::this_thread::yield();
    held &= claims_.load(std::memory_order_seq_cst);
  }
}

bool MappedRegions::release(PlacementMemory& memory) {
  const std::lock_guard guard{changing_};
  const std::uint64_t epoch = memory.words.epoch.value.load(std::memory_order_acquire);
  bool has_some = false;
  for (std::size_t slot = 0; slot < regions_.size(); ++slot) {
    const Region* const region = regions_.at(slot).load(std::memory_order_relaxed);
    if (region == nullptr) {
      continue;
    }
    const auto grant = memory.slots.at(slot).read();
    if (grant && grant->epoch == epoch && region->is_of(*grant)) {
      has_some = true;
    } else {
      put(slot, nullptr);
    }
  }
  return has_some;
}

void MappedRegions::clear() {
  const std::lock_guard guard{changing_};
  for (std::size_t slot = 0; slot < regions_.size(); ++slot) {
    put(slot, nullptr);
  }
}

}  // namespace weft::host
