// Fast registration by what verbs of programs have for it: windows of type 2B. A region's R_Key is
// a window's, so that REG_MR is a bind and an invalidation, local or remote, one of the window. A
// window shows one piece of memory: the prefix of a list that lies in one is what such a region
// maps. Local requests under its key use the region of all memory that the windows are bound to.

#include <cerrno>
#include <cstdint>
#include <mutex>
#include <span>

#include "core/device.h"
#include "core/mr.h"
#include "verbs_driver/verbs_device.h"
#include "verbs_driver/verbs_operations.h"

namespace weft::verbs_driver {
namespace {

constexpr std::uint32_t kUsersPart = 0xFF;

/// The region of all memory to which windows of a PD are bound, made for the first.
Result<void> make_windowed(const VerbsDevice& own, VerbsPd& pd) {
  if (pd.windowed != nullptr) {
    return {};
  }
  pd.windowed = own.library().reg_mr(
      pd.pd, nullptr, SIZE_MAX, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND | IBV_ACCESS_ON_DEMAND);
  if (pd.windowed == nullptr) {
    return std::unexpected(library_error(errno, "ibv_reg_mr"));
  }
  return {};
}

Result<void> allocate_mr(core::Mr& mr, std::uint32_t /*max_entries*/) {
  const VerbsDevice& own = verbs_device_of(mr.device());
  if (!own.registers_by_windows() || mr.type() != core::MrType::MemoryRegistration) {
    return fail(ErrorCode::NotSupported, "{} registers no memory by work requests",
                mr.device().name());
  }
  VerbsPd& pd = verbs_pd(mr.pd());
  const std::lock_guard lock{pd.windows_mutex};
  if (auto made = make_windowed(own, pd); !made) {
    return made;
  }
  ibv_mw* const window = ibv_alloc_mw(pd.pd, IBV_MW_TYPE_2);
  if (window == nullptr) {
    return std::unexpected(library_error(errno, "ibv_alloc_mw"));
  }
  pd.window_keys.insert(window->rkey & ~kUsersPart);
  pd.window_count = static_cast<unsigned>(pd.window_keys.size());
  mr.driver_data = window;
  mr.lkey = LKey{window->rkey};
  mr.rkey = RKey{window->rkey};
  return {};
}

Result<std::uint32_t> map_mr_sg(core::Mr& mr, std::span<const core::ScatterEntry> list,
                                std::uint32_t* offset) {
  const std::uint32_t skipped = offset != nullptr ? *offset : 0;
  if (list.empty() || skipped >= list.front().length) {
    return fail(ErrorCode::InvalidArgument, "byte {} is not in the first of {} elements", skipped,
                list.size());
  }
  const std::uint64_t most = std::uint64_t{mr.max_entries()} * mr.page_size;
  mr.iova = list.front().address + skipped;
  mr.length = 0;
  std::uint32_t count = 0;
  std::uint64_t end = list.front().address;
  for (const core::ScatterEntry& entry : list) {
    const std::uint64_t length = entry.address + entry.length - mr.iova;
    if (entry.address != end || length > most) {
      break;
    }
    mr.length = length;
    end = entry.address + entry.length;
    ++count;
  }
  if (count == 0) {
    return fail(ErrorCode::InvalidArgument, "{} bytes; the region has {} at most",
                list.front().length - skipped, most);
  }
  return count;
}

}  // namespace

bool VerbsPd::is_of_window(LKey key) {
  if (window_count.load(std::memory_order_relaxed) == 0) {
    return false;
  }
  const std::lock_guard lock{windows_mutex};
  return window_keys.contains(key.value() & ~kUsersPart);
}

Result<void> deallocate_window(core::Mr& mr) {
  VerbsPd& pd = verbs_pd(mr.pd());
  const std::lock_guard lock{pd.windows_mutex};
  auto* const window = static_cast<ibv_mw*>(mr.driver_data);
  const std::uint32_t key = mr.rkey.value() & ~kUsersPart;
  auto gone = check_call(ibv_dealloc_mw(window), "ibv_dealloc_mw");
  if (gone) {
    pd.window_keys.erase(key);
    pd.window_count = static_cast<unsigned>(pd.window_keys.size());
  }
  return gone;
}

Result<void> bind_window(const core::SendWr& wr, ibv_send_wr& to) {
  if (wr.mr == nullptr || !wr.mr->is_fast_registration()) {
    return fail(ErrorCode::InvalidArgument, "the region is none of allocate_mr()");
  }
  const VerbsPd& pd = verbs_pd(wr.mr->pd());
  to.opcode = IBV_WR_BIND_MW;
  to.bind_mw.mw = static_cast<ibv_mw*>(wr.mr->driver_data);
  to.bind_mw.rkey = wr.key;
  to.bind_mw.bind_info = {.mr = pd.windowed,
                          .addr = wr.mr->iova,
                          .length = wr.mr->length,
                          // Local rights are no window's.
                          .mw_access_flags = static_cast<unsigned>(wr.access.bits()) &
                                             ~static_cast<unsigned>(IBV_ACCESS_LOCAL_WRITE)};
  return {};
}

void add_window_operations(core::DeviceOperations& operations) {
  operations.allocate_mr = allocate_mr;
  operations.map_mr_sg = map_mr_sg;
}

}  // namespace weft::verbs_driver
