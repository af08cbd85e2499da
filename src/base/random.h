#pragma once

#include <cstdint>

#include "base/assert.h"

namespace weft {

/// A seeded pseudo-random generator (SplitMix64), with the same sequence on all platforms. Not for
/// secrets. Not thread-safe.
class Random {
 public:
  using result_type = std::uint64_t;

  constexpr explicit Random(std::uint64_t seed) : state_(seed) {}

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return ~result_type{0}; }

  constexpr result_type operator()() {
    state_ += 0x9E37'79B9'7F4A'7C15;
    std::uint64_t mixed = state_;
    mixed = (mixed ^ mixed >> 30) * 0xBF58'476D'1CE4'E5B9;
    mixed = (mixed ^ mixed >> 27) * 0x94D0'49BB'1331'11EB;
    return mixed ^ mixed >> 31;
  }

  /// Approximately uniform in 0 .. bound-1 (multiply-shift). `bound` must not be 0.
  constexpr std::uint64_t below(std::uint64_t bound) {
    WEFT_DEBUG_ASSERT(bound != 0, "there is no number below 0");
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>(Wide{(*this)()} * bound >> 64);
  }

  /// True with probability `numerator / denominator`.
  constexpr bool chance(std::uint64_t numerator, std::uint64_t denominator) {
    return below(denominator) < numerator;
  }

 private:
  std::uint64_t state_;
};

}  // namespace weft
