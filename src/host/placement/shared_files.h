#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>

#include "hca/placement.h"
#include "os/peer_file.h"

namespace weft::host {

/// The files behind registered regions that peers may map. Each is held open as long as its region
/// lasts, whether or not the program does. Caller serialises.
class SharedFiles {
 public:
  /// For a region that is registered, while its program surely has the file open.
  void hold(const void* region, std::span<const std::byte> memory);
  /// Where peers map the region's first byte; without a descriptor: nowhere. Looks for it once, if
  /// it is not held yet.
  [[nodiscard]] os::FileRange find(const hca::PlaceableMemory& memory);
  /// Peers map the region no more, while it lasts.
  void give_up(const void* region) { files_[region].reset(); }
  /// The region is no more.
  void forget(const void* region) { files_.erase(region); }

  /// Of further regions no file is looked for. Policy.
  static constexpr std::size_t kMost = 1'024;

 private:
  std::map<const void*, std::optional<os::HeldFile>> files_;
};

}  // namespace weft::host
