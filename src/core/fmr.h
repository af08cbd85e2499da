#pragma once

#include <cstdint>
#include <span>

#include "base/keys.h"
#include "base/result.h"
#include "verbs/access_flags.h"

namespace weft::core {

class Pd;

struct FmrAttributes {
  std::uint32_t max_pages{};
  std::uint8_t page_shift{12};  ///< pages of 2^page_shift bytes
  verbs::AccessFlags access{};
};

/// Fast memory region (`struct ib_fmr`): shows another list of pages with each map, by a call
/// instead of a work request. Calls of one region are its user's to serialise.
class Fmr {
 public:
  Fmr(Pd& pd, const FmrAttributes& attributes) : pd_(pd), attributes_(attributes) {}
  Fmr(const Fmr&) = delete;
  Fmr& operator=(const Fmr&) = delete;

  [[nodiscard]] Pd& pd() const { return pd_; }
  [[nodiscard]] const FmrAttributes& attributes() const { return attributes_; }

  // Set by the driver with each map.
  LKey lkey{};
  RKey rkey{};
  void* driver_data{};

 private:
  Pd& pd_;
  const FmrAttributes attributes_;
};

/// NotImplemented: the device has none.
Result<Fmr*> allocate_fmr(Pd& pd, const FmrAttributes& attributes);

/// Shows `pages`, addresses of their first bytes, from `iova` on (`ib_map_phys_fmr`). What it
/// showed before is out of reach under the keys of then.
Result<void> map_phys_fmr(Fmr& fmr, std::span<const std::uint64_t> pages, std::uint64_t iova);

/// Ends what regions of one device show; returns when the device has no access any more
/// (`ib_unmap_fmr`).
Result<void> unmap_fmrs(std::span<Fmr* const> fmrs);

Result<void> deallocate_fmr(Fmr& fmr);

}  // namespace weft::core
