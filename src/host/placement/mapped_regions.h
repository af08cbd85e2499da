#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "host/placement/placement_memory.h"
#include "os/peer_file.h"

namespace weft::host {

/// Regions of one peer that are mapped here, one for each of its grants. A thread that copies says
/// so by a claim (PeerPlacement); what is no longer wanted is unmapped once every thread that had
/// one then has given it up. Any thread.
class MappedRegions {
 public:
  /// `claims`: a bit for each thread that copies.
  explicit MappedRegions(const std::atomic<std::uint32_t>& claims) : claims_(claims) {}
  ~MappedRegions();
  MappedRegions(const MappedRegions&) = delete;
  MappedRegions& operator=(const MappedRegions&) = delete;

  /// Where the grant's `iova` is mapped: null if that has failed. Nothing: it was not tried. Caller
  /// has a claim for as long as it uses the address.
  [[nodiscard]] std::optional<std::byte*> find(const PlacementGrant& grant) const;
  /// Tries to map it. Caller has no claim. True if it is mapped by this call.
  bool map(pid_t peer, const PlacementGrant& grant);
  /// Unmaps what `memory` does not grant now. Caller has no claim. True if some are mapped still.
  bool release(PlacementMemory& memory);
  /// Unmaps all. Caller has no claim.
  void clear();

 private:
  struct Region {
    os::FileRange file;
    std::uint64_t length{};
    bool is_writable{};
    os::PeerMapping mapping;  // empty: it cannot be mapped

    [[nodiscard]] bool is_of(const PlacementGrant& grant) const {
      return file == grant.file && length == grant.length && is_writable == grant.is_writable();
    }
  };
  using Slots = std::array<std::atomic<Region*>, PlacementMemory::kSlots>;

  void put(std::size_t slot, std::unique_ptr<Region> region);
  void wait_for_claims() const;

  const std::atomic<std::uint32_t>& claims_;
  std::mutex changing_;
  Slots regions_{};
};

}  // namespace weft::host
