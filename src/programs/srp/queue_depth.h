#pragma once

// How deep the send queue of a channel is where the device has not the memory for what is wanted.

#include <cstdint>

#include "base/result.h"

namespace weft::programs::srp {

/// As srpt_create_ch_ib has it; policy.
inline constexpr std::uint32_t kLeastSendDepth = 16;

/// What `make` makes of `depth`, or of half of it and so on while it says OutOfMemory, down to
/// kLeastSendDepth (R-SRPT-9).
[[nodiscard]] auto make_as_deep_as_possible(std::uint32_t depth, auto make)
    -> decltype(make(depth)) {
  auto made = make(depth);
  while (!made && made.error().code == ErrorCode::OutOfMemory && depth / 2 >= kLeastSendDepth) {
    depth /= 2;
    made = make(depth);
  }
  return made;
}

}  // namespace weft::programs::srp
