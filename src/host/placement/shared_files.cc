#include "host/placement/shared_files.h"

namespace weft::host {

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
