#pragma once

#include <cstddef>
#include <map>
#include <optional>

#include "hca/placement.h"
#include "os/peer_file.h"

namespace weft::host {

/// The files behind registered regions that peers may map. Each is looked for once in the life of
/// its region, and held open as long, whether or not the program does. Caller serialises.
class SharedFiles {
 public:
  /// Where peers map the region's first byte; without a descriptor: nowhere.
  [[nodiscard]] os::FileRange find(const hca::PlaceableMemory& memory);
  /// The region is no more.
  void forget(const void* region) { files_.erase(region); }

  /// Of further regions no file is looked for. Policy.
  static constexpr std::size_t kMost = 1'024;

 private:
  std::map<const void*, std::optional<os::HeldFile>> files_;
};

}  // namespace weft::host
