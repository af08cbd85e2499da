#pragma once

#include <cstdint>

#include "wire/mad/port_info.h"

namespace weft::subnet {

/// The rate of a link in PathRecord encoding (IBTA vol 1 §15.2.5.16), from its active width and
/// speed.
[[nodiscard]] std::uint8_t rate_of(const wire::PortInfo& info);

/// The rate of a code, in units of 100 Mb/s, for comparison: codes are not in the order of rates. 0
/// for reserved codes.
[[nodiscard]] std::uint32_t rate_hundreds_of_mbps(std::uint8_t rate);

}  // namespace weft::subnet
