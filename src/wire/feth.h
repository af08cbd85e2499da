#pragma once

#include <cstdint>
#include <string_view>

#include "wire/layout.h"

namespace weft::wire {

/// What a FLUSH is about, the SEL of its FETH; the codes above are reserved.
enum class FlushSelectivity : std::uint8_t {
  Range = 0,   ///< the bytes that the RETH names
  Region = 1,  ///< all of the region or window with the RETH's R_Key
};

/// Bits of PLT: where data must be before a FLUSH is answered; the bits above are reserved.
inline constexpr std::uint32_t kPlacementGlobal = 1U << 0;      ///< where all of the host sees it
inline constexpr std::uint32_t kPlacementPersistent = 1U << 1;  ///< where it outlives the power

/// FLUSH extended transport header (IBTA vol 1 annex A19). A RETH follows it.
struct Feth {
  static constexpr std::string_view kName = "FETH";

  std::uint32_t selectivity{};  // FlushSelectivity
  std::uint32_t placement{};    // kPlacement bits
  bool operator==(const Feth&) const = default;

  // clang-format off
  using Wire = Layout<4,
      Reserved<26>,
      Field<"SEL", 2, &Feth::selectivity>,
      Field<"PLT", 4, &Feth::placement>>;
  // clang-format on
};

}  // namespace weft::wire
