#pragma once

#include <cstdint>
#include <string_view>

#include "base/keys.h"
#include "wire/layout.h"

namespace weft::wire {

/// Atomic extended transport header (IBTA vol 1 §9.3.4).
struct AtomicEth {
  static constexpr std::string_view kName = "AtomicETH";

  std::uint64_t virtual_address{};
  RKey rkey;
  std::uint64_t swap_or_add{};
  std::uint64_t compare{};
  bool operator==(const AtomicEth&) const = default;

  // clang-format off
  using Wire = Layout<28,
      Field<"VA", 64, &AtomicEth::virtual_address>,
      Field<"R_Key", 32, &AtomicEth::rkey>,
      Field<"SwapDt", 64, &AtomicEth::swap_or_add>,
      Field<"CmpDt", 64, &AtomicEth::compare>>;
  // clang-format on
};

}  // namespace weft::wire
