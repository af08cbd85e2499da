#pragma once

#include <cstdint>

#include "wire/mad/port_info.h"

namespace weft::subnet {

/// A link's rate as PathRecord encodes it (IBTA vol 1 §15.2.5.16), from what is active.
[[nodiscard]] std::uint8_t rate_of(const wire::PortInfo& info);

/// What orders rates, since their codes do not: hundreds of Mb/s; 0 for reserved codes.
[[nodiscard]] std::uint32_t rate_hundreds_of_mbps(std::uint8_t rate);

}  // namespace weft::subnet
