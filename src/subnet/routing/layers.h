#pragma once

// Assigns paths to virtual lanes such that no lane can deadlock.

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "subnet/routing/graph.h"
#include "subnet/routing/routing.h"

namespace weft::subnet {

/// Sets `routing.sl` and `routing.vl_count`, using at most `vls` (of 15) layers. Each path that
/// starts or ends at a switch with hosts is assigned a layer in which the channel dependency graph
/// stays acyclic (Dally and Seitz 1987). Fails if the layers do not suffice.
[[nodiscard]] Result<void> assign_layers(const RoutingGraph& graph, std::uint8_t vls,
                                         Routing& routing);

}  // namespace weft::subnet
