#pragma once

// Common parts of the generators of topology.h: hosts h1 .. hN with one port each, switches s1 ..
// sM of equal size, cables between numbered ports.

#include <cstdint>

#include "fabric/topology.h"

namespace weft::fabric::internal {

inline constexpr std::uint32_t kUnicastLids = 0xBFFF;  // IBTA vol 1 §4.1.3

[[nodiscard]] EndPoint host_end(std::uint32_t host);
[[nodiscard]] EndPoint switch_end(std::uint32_t node, std::uint32_t port);
[[nodiscard]] LinkDescription cable(EndPoint a, EndPoint b);

[[nodiscard]] Topology make_nodes(std::uint32_t hosts, std::uint32_t switches,
                                  std::uint32_t ports_per_switch);

/// Cables `each` hosts to each of the first `switches` switches: host `node * each + i` to port
/// i+1.
void cable_hosts(Topology& topology, std::uint32_t switches, std::uint32_t each);

/// Checks that the subnet has a LID for every node. `what` is the subject of the error message.
[[nodiscard]] Result<void> check_lids(std::string_view what, std::uint64_t hosts,
                                      std::uint64_t switches);

}  // namespace weft::fabric::internal
