// Which memory a FLUSH may name (IBTA vol 1 annex A19).

#include <bit>

#include "hca/memory_region.h"
#include "hca/memory_window.h"

namespace weft::hca {
namespace {

[[nodiscard]] MemoryTable::Found part_of(const MemoryRegion& region,
                                         std::optional<MemoryTable::Range> range,
                                         AccessFlags needed) {
  const MemoryTable::Range all{.address = region.iova, .length = region.length};
  const MemoryTable::Range part = range.value_or(all);
  if (region.invalidated) {
    return {.fault = KeyFault::Invalidated, .memory = {}};
  }
  if (part.address < region.iova || part.length > region.length ||
      part.address - region.iova > region.length - part.length) {
    return {.fault = KeyFault::OutOfRange, .memory = {}};
  }
  if (!region.access.has_all(needed)) {
    return {.fault = KeyFault::MissingAccess, .memory = {}};
  }
  if (region.backing == Backing::ExporterPrivate) {
    return {.fault = KeyFault::OtherProcess, .memory = {}};
  }
  std::byte* const first = region.backing == Backing::AddressSpace
                               ? std::bit_cast<std::byte*>(part.address)
                               : region.memory + (part.address - region.iova);
  return {
      .fault = KeyFault::None, .memory = {first, part.length}
  };
}

}  // namespace

MemoryTable::Found MemoryTable::find_to_flush(const ProtectionDomain& pd, RKey rkey,
                                              std::optional<Range> range, AccessFlags needed,
                                              Qpn qpn) const {
  const std::uint32_t index = rkey.value() >> kKeyIndexShift;
  if (index >= slots_.size()) {
    if (const MemoryWindow* const window = window_at(rkey.value())) {
      const MemoryWindow::View view = window->view(pd, qpn, rkey);
      return view.fault != KeyFault::None ? Found{.fault = view.fault, .memory = {}}
                                          : part_of(view.region, range, needed);
    }
  }
  const MemoryRegion* const own =
      index < slots_.size() ? slots_[index].region.load(std::memory_order_acquire) : nullptr;
  const bool is_known = own != nullptr && own->rkey == rkey;
  if (is_known && own->pd == &pd) {
    return part_of(*own, range, needed);
  }
  const MemoryRegion* const import = import_of(pd, rkey.value());
  return import != nullptr
             ? part_of(*import, range, needed)
             : Found{.fault = is_known ? KeyFault::OtherPd : KeyFault::NoSuchKey, .memory = {}};
}

}  // namespace weft::hca
