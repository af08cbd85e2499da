#include "ulp/opa_vnic/mac_list.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace weft::opa_vnic {

bool InterfaceMacs::set(std::vector<wire::MacAddress> macs) {
  macs.resize(std::min(macs.size(), kMost));
  if (macs == macs_) {
    return false;
  }
  macs_ = std::move(macs);
  ++generation_;
  return true;
}

wire::MacList InterfaceMacs::page(std::uint16_t start, std::uint16_t count,
                                  const wire::MacAddress& omitted) const {
  std::vector<wire::MacAddress> listed;
  std::ranges::copy_if(macs_, std::back_inserter(listed),
                       [&](const wire::MacAddress& mac) { return mac != omitted; });
  const std::size_t first = std::min<std::size_t>(start, listed.size());
  const std::size_t most =
      count == 0 ? wire::kMaxMacsInMessage : std::min<std::size_t>(count, wire::kMaxMacsInMessage);
  const std::size_t last = std::min(first + most, listed.size());
  return {
      .start = start,
      .total = static_cast<std::uint16_t>(listed.size()),
      .generation = generation_,
      .macs = {listed.begin() + static_cast<std::ptrdiff_t>(first),
               listed.begin() + static_cast<std::ptrdiff_t>(last)}
  };
}

bool InterfaceMacs::has(const wire::MacAddress& mac) const {
  return std::ranges::find(macs_, mac) != macs_.end();
}

}  // namespace weft::opa_vnic
