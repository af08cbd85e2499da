#pragma once

#include <array>
#include <cstdint>

#include "base/random.h"

namespace weft::cm {

/// Local communication ids: 32 bits, each of them once before any comes again, in an order that is
/// the seed's (R-CM-10). Who has seen some cannot easily tell the next one. Pure, one thread.
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
