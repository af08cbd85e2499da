#pragma once

#include <cstdint>

#include "base/identifiers.h"

namespace weft {

/// A QPN contains its process (policy, not from any specification): 10 bits for the process slot on
/// the host, 14 bits for the index. Slot 0 belongs to the host itself, for QP0 and QP1.
inline constexpr unsigned kQpnIndexBits = 14;
inline constexpr std::uint32_t kSlotCount = 1U << (24 - kQpnIndexBits);
[[nodiscard]] constexpr std::uint32_t slot_of(Qpn qpn) { return qpn.value() >> kQpnIndexBits; }
[[nodiscard]] constexpr Qpn first_qpn_of(std::uint32_t slot) { return Qpn{slot << kQpnIndexBits}; }

}  // namespace weft
