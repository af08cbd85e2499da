#pragma once

// Which addresses a host's opa0 has unless it is told otherwise, by a formula, so that they need no
// file: those of eth0 with other prefixes. Pure.

#include <span>
#include <vector>

#include "base/ip_address.h"
#include "base/result.h"

namespace weft::programs::vnic {

/// Of eth0's addresses 127.77.x.y and fd77::n: 10.78.x.y/16 and fd77:16b::n/64. NotFound: eth0 has
/// neither.
[[nodiscard]] Result<std::vector<InterfaceAddress>> opa0_addresses(
    std::span<const IpAddress> of_eth0);

}  // namespace weft::programs::vnic
