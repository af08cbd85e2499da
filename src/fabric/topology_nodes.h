#pragma once

// What every generator of topology.h begins with: hosts h1 .. hN of one port each, switches s1 ..
// sM of equal size, cables between ports by number.

#include <cstdint>

#include "fabric/topology.h"

namespace weft::fabric::internal {

inline constexpr std::uint32_t kUnicastLids = 0xBFFF;  // IBTA vol 1 §4.1.3

[[nodiscard]] EndPoint host_end(std::uint32_t host);
[[nodiscard]] EndPoint switch_end(std::uint32_t node, std::uint32_t port);
[[nodiscard]] LinkDescription cable(EndPoint a, EndPoint b);

[[nodiscard]] Topology make_nodes(std::uint32_t hosts, std::uint32_t switches,
                                  std::uint32_t ports_per_switch);

/// `each` hosts under each of the first `switches` switches: host `node * each + i` on port i+1.
void cable_hosts(Topology& topology, std::uint32_t switches, std::uint32_t each);

/// Whether a subnet has a LID for every node. `what` is the subject of the refusal's sentence.
[[nodiscard]] Result<void> check_lids(std::string_view what, std::uint64_t hosts,
                                      std::uint64_t switches);

}  // namespace weft::fabric::internal
