#pragma once

// Which addresses a host's IPoIB interface has, by a formula, so that they need no file: those of
// eth0 with other prefixes. Pure.

#include <span>
#include <vector>

#include "base/ip_address.h"
#include "base/result.h"

namespace weft::programs::net {

/// Of eth0's addresses 127.77.x.y and fd77::n: 10.77.x.y/16, fd77:1b::n/64 and the link-local
/// fe80::1b00:0:0:n, which others than the port's own (fabric/addresses.h) since RDMA-CM's resolver
/// answers for that one. NotFound: eth0 has neither.
[[nodiscard]] Result<std::vector<InterfaceAddress>> ib0_addresses(
    std::span<const IpAddress> of_eth0);

}  // namespace weft::programs::net
