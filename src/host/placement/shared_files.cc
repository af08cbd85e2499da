#include "host/placement/shared_files.h"

#include <utility>

namespace weft::host {

void SharedFiles::hold(const void* region, std::span<const std::byte> memory) {
  if (files_.size() == kMost || files_.contains(region)) {
    return;
  }
  if (auto file = os::find_held_file(memory)) {
    files_.emplace(region, std::move(file));
  }
}

os::FileRange SharedFiles::find(const hca::PlaceableMemory& memory) {
  auto known = files_.find(memory.region);
  if (known == files_.end()) {
    if (files_.size() == kMost) {
      return {};
    }
    known = files_.emplace(memory.region, os::find_held_file({memory.memory, memory.length})).first;
  }
  return known->second ? known->second->range : os::FileRange{};
}

}  // namespace weft::host
