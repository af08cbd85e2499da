// Memory regions, and the keys of local memory.

#include <bit>
#include <cerrno>
#include <cstdint>

#include "core/device.h"
#include "core/mr.h"
#include "os/heap.h"
#include "verbs_driver/verbs_device.h"
#include "verbs_driver/verbs_operations.h"

namespace weft::verbs_driver {
namespace {

[[nodiscard]] int flags_of(verbs::AccessFlags access) { return static_cast<int>(access.bits()); }

Result<void> keep(core::Mr& mr, ibv_mr* made, const char* call) {
  if (made == nullptr) {
    return std::unexpected(library_error(errno, call));
  }
  mr.driver_data = made;
  mr.lkey = LKey{made->lkey};
  mr.rkey = RKey{made->rkey};
  return {};
}

/// All memory where the device pages on demand; else the arena, whose local key then stands for
/// other memory, too, until a request is posted.
Result<void> get_dma_mr(core::Mr& mr, verbs::AccessFlags access) {
  VerbsDevice& own = verbs_device_of(mr.device());
  VerbsPd& pd = verbs_pd(mr.pd());
  const bool reaches_all = own.uses_on_demand_paging();
  const MutableByteSpan arena = own.arena().all();
  ibv_mr* const made =
      reaches_all
          ? own.library().reg_mr(pd.pd, nullptr, SIZE_MAX, flags_of(access) | IBV_ACCESS_ON_DEMAND)
          : own.library().reg_mr(pd.pd, arena.data(), arena.size(), flags_of(access));
  if (auto kept = keep(mr, made, "ibv_reg_mr"); !kept) {
    return kept;
  }
  if (pd.region == nullptr) {
    pd.region = made;
    pd.reaches_all = reaches_all;
    pd.local_key = mr.lkey;
  }
  return {};
}

Result<void> register_user_mr(core::Mr& mr, const core::UserMemoryRange& range,
                              verbs::AccessFlags access, core::UserData* /*user_data*/) {
  void* const start = std::bit_cast<void*>(range.start);
  return keep(
      mr,
      verbs_device_of(mr.device())
          .library()
          .reg_mr_iova(verbs_pd(mr.pd()).pd, start, range.length, range.iova, flags_of(access)),
      "ibv_reg_mr_iova");
}

Result<void> deregister_mr(core::Mr& mr, core::UserData* /*user_data*/) {
  if (mr.is_fast_registration()) {
    return deallocate_window(mr);
  }
  VerbsPd& pd = verbs_pd(mr.pd());
  auto* const there = static_cast<ibv_mr*>(mr.driver_data);
  auto gone = check_call(verbs_device_of(mr.device()).library().dereg_mr(there), "ibv_dereg_mr");
  if (gone && pd.region == there) {
    pd.region = nullptr;
  }
  return gone;
}

}  // namespace

Result<LKey> VerbsPd::key_of(std::uint64_t address, std::uint32_t length) {
  if (reaches_all) {
    if (!registers_heap.load(std::memory_order_relaxed) || !os::is_in_heap(address, length)) {
      return local_key;
    }
    const auto registered = registrations->key_of(address, length);
    if (!registered) {
      registers_heap.store(false, std::memory_order_relaxed);  // as a limit of locked memory stays
    }
    return registered.value_or(local_key);
  }
  const auto begin = std::bit_cast<std::uint64_t>(region->addr);
  const bool is_in_arena =
      address >= begin && length <= region->length && address - begin <= region->length - length;
  return is_in_arena ? Result<LKey>{local_key} : registrations->key_of(address, length);
}

Result<std::span<ibv_sge>> DeviceSges::add(VerbsPd* pd, std::span<const verbs::Sge> sges) {
  if (!has_room_for(sges)) {
    return fail(ErrorCode::InvalidArgument, "{} elements; a request has {} at most", sges.size(),
                list.size());
  }
  const std::size_t before = count;
  for (const verbs::Sge& sge : sges) {
    LKey key = sge.lkey;
    if (pd != nullptr && pd->is_of_window(key)) {
      key = LKey{pd->windowed->lkey};
    }
    const bool is_local = pd != nullptr && pd->region != nullptr && key == pd->local_key;
    if (is_local && sge.length != 0) {
      const auto found = pd->key_of(sge.address, sge.length);
      if (!found) {
        return std::unexpected(found.error());
      }
      key = *found;
    }
    list[count++] = {.addr = sge.address, .length = sge.length, .lkey = key.value()};
  }
  return std::span{list}.subspan(before, count - before);
}

void add_memory_operations(core::DeviceOperations& operations) {
  operations.get_dma_mr = get_dma_mr;
  operations.register_user_mr = register_user_mr;
  operations.deregister_mr = deregister_mr;
}

}  // namespace weft::verbs_driver
