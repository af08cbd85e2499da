// The verbs of memory regions and windows.

#include <bit>
#include <memory>
#include <mutex>
#include <optional>

#include "base/assert.h"
#include "hca/hca.h"
#include "hca/hca_state.h"
#include "hca/memory_window.h"
#include "hca/planted_bug.h"

namespace weft::hca {

Result<void> Hca::check_size(std::uint64_t bytes) const {
  const std::uint64_t most = state_->configuration.limits.max_mr_size;
  if (bytes > most) {
    return fail(ErrorCode::InvalidArgument, "a region of {} bytes; the device allows {}", bytes,
                most);
  }
  return {};
}

Result<MemoryRegion*> Hca::register_memory(ProtectionDomain& pd, std::uint64_t iova,
                                           std::span<std::byte> memory, AccessFlags access) {
  if (auto checked = check_size(memory.size()); !checked) {
    return std::unexpected(checked.error());
  }
  auto region = state_->memory.add(pd, iova, memory, access);
  if (region) {
    pd.uses.fetch_add(1, std::memory_order_relaxed);
  }
  return region;
}

Result<MemoryRegion*> Hca::register_address_space(ProtectionDomain& pd, AccessFlags access) {
  auto region = state_->memory.add(pd, 0, {}, access, Backing::AddressSpace);
  if (region) {
    pd.uses.fetch_add(1, std::memory_order_relaxed);
  }
  return region;
}

Result<MemoryRegion*> Hca::register_null(ProtectionDomain& pd) {
  auto region = state_->memory.add(pd, 0, {}, Access::LocalWrite, Backing::Nothing);
  if (region) {
    pd.uses.fetch_add(1, std::memory_order_relaxed);
  }
  return region;
}

Result<MemoryRegion*> Hca::reregister_memory(MemoryRegion& region, ProtectionDomain& pd,
                                             std::uint64_t iova, std::span<std::byte> memory,
                                             AccessFlags access) {
  if (region.backing != Backing::Range) {
    return fail(ErrorCode::NotSupported,
                "only a region of a range of memory can be registered anew");
  }
  if (auto checked = check_size(memory.size()); !checked) {
    return std::unexpected(checked.error());
  }
  ProtectionDomain* const before = region.pd;
  auto replaced = state_->memory.replace(region, pd, iova, memory, access);
  if (!replaced) {
    return std::unexpected(replaced.error());
  }
  fence(*replaced->before);  // only now may the previous region be freed
  pd.uses.fetch_add(1, std::memory_order_relaxed);
  before->uses.fetch_sub(1, std::memory_order_release);
  return replaced->now;
}

Result<void> Hca::prefetch(const ProtectionDomain& pd, std::span<const Sge> ranges, Prefetch how) {
  for (const Sge& range : ranges) {
    const std::optional<MemoryRegion> region = state_->memory.describe(range.lkey);
    if (!region) {
      return fail(ErrorCode::NotFound, "no region has L_Key {:#x}", range.lkey.value());
    }
    if (region->pd != &pd || (how.for_writing && !region->access.has(Access::LocalWrite))) {
      return fail(ErrorCode::PermissionDenied,
                  "the region with L_Key {:#x} is of another PD, or without local write",
                  range.lkey.value());
    }
    if (!region->access.has(Access::OnDemand)) {
      return fail(ErrorCode::InvalidArgument,
                  "the region with L_Key {:#x} is not paged on demand: nothing to prefetch",
                  range.lkey.value());
    }
    if (range.address < region->iova || range.length > region->length ||
        range.address - region->iova > region->length - range.length) {
      return fail(ErrorCode::BadAddress, "{} bytes at {:#x} are not inside the region",
                  range.length, range.address);
    }
    std::byte* const first = region->backing == Backing::AddressSpace
                                 ? std::bit_cast<std::byte*>(range.address)
                                 : region->memory + (range.address - region->iova);
    if (how.fault && !state_->memory.fault_in({first, range.length}, how.for_writing) &&
        how.must_succeed) {
      return fail(ErrorCode::BadAddress, "the program has no such memory: {} bytes at {:#x}",
                  range.length, range.address);
    }
  }
  return {};
}

Result<void> Hca::deregister_memory(MemoryRegion& region) {
  ProtectionDomain* const pd = region.pd;
  const auto removed = state_->memory.remove(region);
  if (!removed) {
    return std::unexpected(removed.error());
  }
  fence(**removed);
  pd->uses.fetch_sub(1, std::memory_order_release);
  return {};
}

Result<MemoryWindow*> Hca::allocate_window(ProtectionDomain& pd, WindowType type) {
  auto window = state_->memory.add_window(pd, type);
  if (window) {
    pd.uses.fetch_add(1, std::memory_order_relaxed);
  }
  return window;
}

void Hca::deallocate_window(MemoryWindow& window) {
  ProtectionDomain& pd = window.pd();
  const std::unique_ptr<MemoryWindow> removed = state_->memory.remove_window(window);
  fence_qps();
  pd.uses.fetch_sub(1, std::memory_order_release);
}

/// On return, no QP still uses what was removed from a table before the call.
void Hca::fence_qps() {
  const std::lock_guard guard{state_->objects};  // keeps QPs from being destroyed
  state_->each_qp([](Qp& qp) { qp.pass_through(); });
}

/// Without the lock of `objects`, which is never taken with a QP's: destroy_qp() waits instead.
void Hca::wait_for_responders() {
  state_->key_fences.fetch_add(1, std::memory_order_seq_cst);
  state_->each_qp([](Qp& qp) { qp.wait_for_responder(); });
  state_->key_fences.fetch_sub(1, std::memory_order_release);
}

/// The same for a region, which peers may be placing into by themselves. What a QP was granting
/// meanwhile is withdrawn, too.
void Hca::fence(const MemoryRegion& removed) {
  fence_qps();
  if (removed.was_granted() && !planted(PlantedBug::PlacementNotWithdrawn)) {
    state_->events.withdraw_placement();
  }
  if (removed.was_granted()) {
    state_->events.forget_placeable(&removed);
  }
}

Result<FastRegion*> Hca::allocate_fast_region(ProtectionDomain& pd, std::uint32_t max_pieces) {
  auto region = state_->memory.add_fast(pd, max_pieces);
  if (region) {
    pd.uses.fetch_add(1, std::memory_order_relaxed);
  }
  return region;
}

void Hca::free_retired(FastRegion& region) {
  const std::size_t count = state_->memory.retired(region);
  fence_qps();  // nobody looks at those any more
  state_->memory.free_retired(region, count);
}

void Hca::map(FastRegion& region, std::uint64_t iova, PagedMemory memory) {
  if (state_->memory.map(region, iova, std::move(memory))) {
    free_retired(region);
  }
}

void Hca::map_signed(FastRegion& region, std::uint64_t iova, PagedMemory data,
                     PagedMemory metadata) {
  if (state_->memory.map_signed(region, iova, std::move(data), std::move(metadata))) {
    free_retired(region);
  }
}

Result<std::uint64_t> Hca::sign(FastRegion& region, const verbs::SignatureAttributes& attributes) {
  if (const std::string_view refusal = state_->memory.sign(region, attributes); !refusal.empty()) {
    return fail(ErrorCode::InvalidArgument, "the region cannot be signed so: {}", refusal);
  }
  return state_->memory.mapped_length(region);
}

verbs::SignatureStatus Hca::take_signature_status(FastRegion& region) {
  return state_->memory.take_signature_status(region);
}

Result<void> Hca::show(FastRegion& region, RKey key, AccessFlags access) {
  WEFT_ASSERT(key.value() >> kKeyIndexShift == region.key() >> kKeyIndexShift,
              "the key is one of this region's");
  const std::string_view refusal = state_->memory.register_fast(region.pd(), key, access);
  if (!refusal.empty()) {
    return fail(ErrorCode::InvalidArgument, "key {:#x} shows no memory: {}", key.value(), refusal);
  }
  return {};
}

void Hca::hide(const ProtectionDomain& pd, std::span<const RKey> keys) {
  bool is_hidden = false;
  for (const RKey key : keys) {
    is_hidden |= state_->memory.invalidate(pd, key) == KeyFault::None;
  }
  if (is_hidden) {
    fence_qps();
  }
}

void Hca::deallocate_fast_region(FastRegion& region) {
  ProtectionDomain& pd = region.pd();
  const std::unique_ptr<FastRegion> removed = state_->memory.remove_fast(region);
  fence_qps();
  pd.uses.fetch_sub(1, std::memory_order_release);
}

}  // namespace weft::hca
