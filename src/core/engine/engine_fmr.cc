// Fast memory regions of an engine: the regions of work requests, shown and hidden by calls.

#include <bit>
#include <utility>
#include <vector>

#include "core/engine/engine_operations.h"
#include "core/fmr.h"
#include "hca/fast_region.h"
#include "hca/paged_memory.h"

namespace weft::core::engine {
namespace {

[[nodiscard]] hca::FastRegion& fast_region(const Fmr& fmr) {
  return *static_cast<hca::FastRegion*>(fmr.driver_data);
}

[[nodiscard]] hca::Hca& hca_of(const Fmr& fmr) { return engine_of(fmr.pd().device()).hca(); }

Result<void> allocate_fmr(Fmr& fmr) {
  const auto made =
      hca_of(fmr).allocate_fast_region(engine_pd(fmr.pd()), fmr.attributes().max_pages);
  if (!made) {
    return std::unexpected(made.error());
  }
  fmr.driver_data = *made;
  fmr.lkey = LKey{(*made)->key()};
  fmr.rkey = RKey{(*made)->key()};
  return {};
}

Result<void> map_phys_fmr(Fmr& fmr, std::span<const std::uint64_t> pages, std::uint64_t iova) {
  hca::Hca& hca = hca_of(fmr);
  hca::PagedMemory memory;
  for (const std::uint64_t page : pages) {
    memory.add({std::bit_cast<std::byte*>(page), std::size_t{1} << fmr.attributes().page_shift});
  }
  hca.hide(engine_pd(fmr.pd()), {&fmr.rkey, 1});
  hca.map(fast_region(fmr), iova, std::move(memory));
  const std::uint32_t key = next_key(fmr.rkey.value());
  if (auto shown = hca.show(fast_region(fmr), RKey{key}, fmr.attributes().access); !shown) {
    return shown;
  }
  fmr.lkey = LKey{key};
  fmr.rkey = RKey{key};
  return {};
}

Result<void> unmap_fmrs(std::span<Fmr* const> fmrs) {
  // All keys of a PD in one go, so that QPs are passed through once.
  std::vector<RKey> keys;
  for (std::size_t i = 0; i < fmrs.size(); ++i) {
    keys.push_back(fmrs[i]->rkey);
    if (i + 1 == fmrs.size() || &fmrs[i + 1]->pd() != &fmrs[i]->pd()) {
      hca_of(*fmrs[i]).hide(engine_pd(fmrs[i]->pd()), keys);
      keys.clear();
    }
  }
  return {};
}

Result<void> deallocate_fmr(Fmr& fmr) {
  hca_of(fmr).deallocate_fast_region(fast_region(fmr));
  return {};
}

}  // namespace

void EngineOperations::add_fmrs(DeviceOperations& operations) {
  operations.allocate_fmr = allocate_fmr;
  operations.map_phys_fmr = map_phys_fmr;
  operations.unmap_fmrs = unmap_fmrs;
  operations.deallocate_fmr = deallocate_fmr;
}

}  // namespace weft::core::engine
