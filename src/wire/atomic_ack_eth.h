#pragma once

#include <cstdint>
#include <string_view>

#include "wire/layout.h"

namespace weft::wire {

/// Atomic acknowledge extended transport header (IBTA vol 1 §9.3.5.3).
struct AtomicAckEth {
  static constexpr std::string_view kName = "AtomicAckETH";

  std::uint64_t original{};
  bool operator==(const AtomicAckEth&) const = default;

  // clang-format off
  using Wire = Layout<8,
      Field<"OrigRemDt", 64, &AtomicAckEth::original>>;
  // clang-format on
};

}  // namespace weft::wire
