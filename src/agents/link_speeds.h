#pragma once

// Width and speed of links in PortInfo's encodings (IBTA vol 1 §14.2.5.6), and what two ports that
// enable some of them agree on.

#include <cstdint>
#include <optional>

#include "fabric/tables.h"

namespace weft::agents {

/// 4x EDR, as a link without a limit shows itself.
inline constexpr fabric::LinkSpeed kUnlimitedLink{
    .rate_mbps = 0, .width = 2, .speed = 4, .extended = 2};

/// Bits that a port may enable when `best` is what it reaches: that, and all that is slower.
[[nodiscard]] std::uint8_t supported_widths(const fabric::LinkSpeed& best);
[[nodiscard]] std::uint8_t supported_speeds(const fabric::LinkSpeed& best);
[[nodiscard]] std::uint8_t supported_extended_speeds(const fabric::LinkSpeed& best);

/// What one end allows.
struct EnabledSpeeds {
  std::uint8_t widths{};
  std::uint8_t speeds{};
  std::uint8_t extended{};
};

/// The fastest that both allow; `best` itself, rate and all, when they allow it. Nothing: they have
/// no width or speed in common.
[[nodiscard]] std::optional<fabric::LinkSpeed> negotiate(const EnabledSpeeds& a,
                                                         const EnabledSpeeds& b,
                                                         const fabric::LinkSpeed& best);

}  // namespace weft::agents
