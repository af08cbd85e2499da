#include "ulp/rsocket/io_map.h"

#include <algorithm>
#include <utility>

namespace weft::rsockets {

std::optional<std::uint32_t> IoMap::free_index() const {
  for (std::uint32_t index = 0; index < entries_; ++index) {
    if (std::ranges::find(mappings_, std::optional{index}, &Mapping::index) == mappings_.end()) {
      return index;
    }
  }
  return std::nullopt;
}

void IoMap::add(Mapping mapping) {
  mapping.is_told = !mapping.index.has_value();
  mappings_.push_back(mapping);
}

bool IoMap::remove(std::uint64_t address, std::uint32_t length) {
  const auto found = std::ranges::find_if(mappings_, [&](const Mapping& each) {
    return each.address == address && each.length == length;
  });
  if (found == mappings_.end()) {
    return false;
  }
  mappings_.erase(found);
  return true;
}

bool IoMap::has_untold() const {
  return std::ranges::any_of(mappings_, [](const Mapping& each) { return !each.is_told; });
}

IoMap::Mapping IoMap::tell_next() {
  Mapping& next = *std::ranges::find(mappings_, false, &Mapping::is_told);
  next.is_told = true;
  return next;
}

}  // namespace weft::rsockets
