#pragma once

#include <array>
#include <cstdint>

#include "base/random.h"

namespace weft::cm {

/// Allocates local communication IDs. All 32-bit values except 0 are issued once before any
/// repeats, in a pseudo-random order given by the seed (R-CM-10), so that a peer cannot easily
/// predict the next one. Not thread-safe.
class CommunicationIds {
 public:
  explicit CommunicationIds(std::uint64_t seed);

  /// Never 0.
  [[nodiscard]] std::uint32_t next();

 private:
  static constexpr unsigned kRounds = 6;
  [[nodiscard]] std::uint32_t permuted(std::uint32_t number) const;

  std::array<std::uint64_t, kRounds> keys_{};
  std::uint32_t last_{};
};

}  // namespace weft::cm
