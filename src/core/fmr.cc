#include "core/fmr.h"

#include <memory>

#include "core/device.h"
#include "core/pd.h"

namespace weft::core {

Result<Fmr*> allocate_fmr(Pd& pd, const FmrAttributes& attributes) {
  const Device& device = pd.device();
  const DeviceOperations& operations = device.operations();
  if (operations.allocate_fmr == nullptr || operations.deallocate_fmr == nullptr ||
      operations.map_phys_fmr == nullptr || operations.unmap_fmrs == nullptr) {
    return fail(ErrorCode::NotImplemented, "{} has no fast memory regions", device.name());
  }
  const std::uint64_t page = attributes.page_shift < 64 ? 1ULL << attributes.page_shift : 0;
  if ((device.attributes().page_size_mask & page) == 0) {
    return fail(ErrorCode::InvalidArgument, "the device has no pages of 2^{} bytes",
                attributes.page_shift);
  }
  auto fmr = std::make_unique<Fmr>(pd, attributes);
  if (const auto made = operations.allocate_fmr(*fmr); !made) {
    return std::unexpected(made.error());
  }
  pd.hold();
  return fmr.release();
}

Result<void> map_phys_fmr(Fmr& fmr, std::span<const std::uint64_t> pages, std::uint64_t iova) {
  if (pages.empty() || pages.size() > fmr.attributes().max_pages) {
    return fail(ErrorCode::InvalidArgument, "a list of {} pages; the region takes 1 to {}",
                pages.size(), fmr.attributes().max_pages);
  }
  return fmr.pd().device().operations().map_phys_fmr(fmr, pages, iova);
}

Result<void> unmap_fmrs(std::span<Fmr* const> fmrs) {
  if (fmrs.empty()) {
    return {};
  }
  return fmrs.front()->pd().device().operations().unmap_fmrs(fmrs);
}

Result<void> deallocate_fmr(Fmr& fmr) {
  if (auto gone = fmr.pd().device().operations().deallocate_fmr(fmr); !gone) {
    return gone;
  }
  fmr.pd().put();
  std::unique_ptr<Fmr>{&fmr}.reset();
  return {};
}

}  // namespace weft::core
