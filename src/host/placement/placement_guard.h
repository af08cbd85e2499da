#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::host {

/// The guard page of this process (ring/placement.h): a byte that peers' copies touch first. A page
/// that was closed is never opened again, and nothing else comes to lie at its address, so a copy
/// that starts late finds nothing. Caller serialises.
class PlacementGuard {
 public:
  PlacementGuard() = default;
  /// The pages stay reserved: a peer may still hold their addresses.
  ~PlacementGuard() = default;
  PlacementGuard(const PlacementGuard&) = delete;
  PlacementGuard& operator=(const PlacementGuard&) = delete;

  /// The address of the open page, which is opened if none is; 0 if there is no memory.
  [[nodiscard]] std::uint64_t address();
  /// Closes that page.
  void close();

  /// Pages of one reservation of addresses, which take no memory. Policy.
  static constexpr std::size_t kPages = 4'096;

 private:
  [[nodiscard]] bool reserve();

  std::byte* pages_{};  // of the newest reservation; earlier ones stay reserved
  std::size_t used_{kPages};
  std::byte* open_{};
};

}  // namespace weft::host
