// Regions and windows of an engine.

#include <algorithm>
#include <bit>
#include <span>
#include <utility>
#include <vector>

#include "core/engine/engine_operations.h"
#include "hca/memory_window.h"

namespace weft::core::engine {
namespace {

Result<void> keep(Mr& mr, const Result<hca::MemoryRegion*>& made) {
  if (!made) {
    return std::unexpected(made.error());
  }
  mr.driver_data = *made;
  mr.lkey = (*made)->lkey;
  mr.rkey = (*made)->rkey;
  return {};
}

Result<void> get_dma_mr(Mr& mr, verbs::AccessFlags access) {
  mr.length = ~std::uint64_t{0};
  return keep(mr, engine_of(mr.device()).hca().register_address_space(engine_pd(mr.pd()), access));
}

Result<void> register_user_mr(Mr& mr, const UserMemoryRange& range, verbs::AccessFlags access,
                              UserData* /*user_data*/) {
  const std::span memory{std::bit_cast<std::byte*>(range.start), range.length};
  return keep(
      mr,
      engine_of(mr.device()).hca().register_memory(engine_pd(mr.pd()), range.iova, memory, access));
}

[[nodiscard]] hca::FastRegion& fast_region(const Mr& mr) {
  return *static_cast<hca::FastRegion*>(mr.driver_data);
}

Result<void> deregister_mr(Mr& mr, UserData* /*user_data*/) {
  hca::Hca& hca = engine_of(mr.device()).hca();
  if (mr.is_fast_registration()) {
    hca.deallocate_fast_region(fast_region(mr));
    return {};
  }
  return hca.deregister_memory(*static_cast<hca::MemoryRegion*>(mr.driver_data));
}

Result<void> allocate_mr(Mr& mr, std::uint32_t max_entries) {
  const auto made =
      engine_of(mr.device()).hca().allocate_fast_region(engine_pd(mr.pd()), max_entries);
  if (!made) {
    return std::unexpected(made.error());
  }
  mr.driver_data = *made;
  mr.lkey = LKey{(*made)->key()};
  mr.rkey = RKey{(*made)->key()};
  return {};
}

[[nodiscard]] std::span<std::byte> memory_at(std::uint64_t address, std::uint64_t length) {
  return {std::bit_cast<std::byte*>(address), length};
}

/// Elements as they are, one entry each.
Result<std::uint32_t> map_elements(Mr& mr, std::span<const ScatterEntry> list,
                                   std::uint32_t* offset, hca::PagedMemory& memory) {
  const std::uint64_t skipped = offset != nullptr ? *offset : 0;
  if (list.empty() || skipped >= list.front().length) {
    return fail(ErrorCode::InvalidArgument, "byte {} is not in the first of {} elements", skipped,
                list.size());
  }
  const std::size_t count = std::min<std::size_t>(list.size(), mr.max_entries());
  memory.add(memory_at(list.front().address + skipped, list.front().length - skipped));
  for (const ScatterEntry& element : list.subspan(1, count - 1)) {
    memory.add(memory_at(element.address, element.length));
  }
  mr.iova = list.front().address + skipped;
  mr.length = memory.length();
  if (offset != nullptr) {
    *offset = 0;
  }
  return static_cast<std::uint32_t>(count);
}

/// Pages, of which the first and the last may be shown in part.
Result<std::uint32_t> map_pages(Mr& mr, std::span<const ScatterEntry> list, std::uint32_t* offset,
                                hca::PagedMemory& memory) {
  std::vector<std::uint64_t> pages;
  auto count = sg_to_pages(mr, list, offset, [&](std::uint64_t page) {
    if (pages.size() == mr.max_entries()) {
      return false;
    }
    pages.push_back(page);
    return true;
  });
  std::uint64_t left = count ? mr.length : 0;
  for (const std::uint64_t page : pages) {
    const std::uint64_t begin = std::max(page, memory.length() == 0 ? mr.iova : page);
    const std::uint64_t shown = std::min(left, page + mr.page_size - begin);
    memory.add(memory_at(begin, shown));
    left -= shown;
  }
  return count;
}

Result<std::uint32_t> map_mr_sg(Mr& mr, std::span<const ScatterEntry> list, std::uint32_t* offset) {
  hca::PagedMemory memory;
  auto count = mr.type() == MrType::SgGaps ? map_elements(mr, list, offset, memory)
                                           : map_pages(mr, list, offset, memory);
  if (count) {
    engine_of(mr.device()).hca().map(fast_region(mr), mr.iova, std::move(memory));
  }
  return count;
}

Result<void> allocate_mw(Mw& mw) {
  const auto type = static_cast<hca::WindowType>(mw.type());
  const auto made = engine_of(mw.device()).hca().allocate_window(engine_pd(mw.pd()), type);
  if (!made) {
    return std::unexpected(made.error());
  }
  mw.driver_data = *made;
  mw.rkey = (*made)->rkey();
  return {};
}

Result<void> deallocate_mw(Mw& mw) {
  engine_of(mw.device()).hca().deallocate_window(*static_cast<hca::MemoryWindow*>(mw.driver_data));
  return {};
}

}  // namespace

void EngineOperations::add_memory(DeviceOperations& operations) {
  operations.get_dma_mr = get_dma_mr;
  operations.register_user_mr = register_user_mr;
  operations.deregister_mr = deregister_mr;
  operations.allocate_mr = allocate_mr;
  operations.map_mr_sg = map_mr_sg;
  operations.allocate_mw = allocate_mw;
  operations.deallocate_mw = deallocate_mw;
}

}  // namespace weft::core::engine
