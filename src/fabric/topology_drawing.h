#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fabric/topology.h"

namespace weft::fabric::internal {

[[nodiscard]] std::string_view name_of(const Topology& topology, const EndPoint& end);

/// Includes the HCA unless it is the host's first.
[[nodiscard]] std::string port_of(const Topology& topology, const EndPoint& end);

/// Hops from each switch to the nearest host; 0 if none can be reached.
[[nodiscard]] std::vector<std::uint32_t> distances(const Topology& topology);

}  // namespace weft::fabric::internal
