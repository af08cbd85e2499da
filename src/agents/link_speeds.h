#pragma once

// Width and speed of links in PortInfo's encodings (IBTA vol 1 §14.2.5.6), and the negotiation
// between two ports. Pure functions.

#include <cstdint>
#include <optional>

#include "fabric/tables.h"

namespace weft::agents {

/// 4x EDR, which a link without a rate limit reports.
inline constexpr fabric::LinkSpeed kUnlimitedLink{
    .rate_mbps = 0, .width = 2, .speed = 4, .extended = 2};

/// PortInfo's bits for `best` and everything slower.
[[nodiscard]] std::uint8_t supported_widths(const fabric::LinkSpeed& best);
/// LinkSpeedSupported for `best`, likewise.
[[nodiscard]] std::uint8_t supported_speeds(const fabric::LinkSpeed& best);
/// LinkSpeedExtSupported for `best`, likewise.
[[nodiscard]] std::uint8_t supported_extended_speeds(const fabric::LinkSpeed& best);

/// What one end of a link has enabled.
struct EnabledSpeeds {
  std::uint8_t widths{};
  std::uint8_t speeds{};
  std::uint8_t extended{};
};

/// The fastest combination that both ends have enabled; `best` with its exact rate if they allow
/// it. Nullopt if they have no width or speed in common.
[[nodiscard]] std::optional<fabric::LinkSpeed> negotiate(const EnabledSpeeds& a,
                                                         const EnabledSpeeds& b,
                                                         const fabric::LinkSpeed& best);

}  // namespace weft::agents
