#pragma once

// CmdSN, StatSN, DataSN and R2TSN (RFC 7143 §4.2.2): 32 bits, compared as serial numbers (RFC 1982
// §3.2), so there is no `<` for them.

#include <cstdint>

namespace weft::iscsi {

/// Signed difference from `from` to `to`.
[[nodiscard]] constexpr std::int32_t serial_distance(std::uint32_t from, std::uint32_t to) {
  return static_cast<std::int32_t>(to - from);
}

/// True if `a` was given before `b`.
[[nodiscard]] constexpr bool serial_before(std::uint32_t a, std::uint32_t b) {
  return serial_distance(a, b) > 0;
}

}  // namespace weft::iscsi
