#pragma once

// Which paths may share a virtual lane without a cycle of full buffers.

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "subnet/routing/graph.h"
#include "subnet/routing/routing.h"

namespace weft::subnet {

/// Fills in `routing.sl` and `routing.vl_count`, at most `vls` (of 15): every path between two
/// switches of which one has hosts gets a layer, and in no layer do the links wait for each other
/// in a circle (Dally and Seitz 1987).
[[nodiscard]] Result<void> assign_layers(const RoutingGraph& graph, std::uint8_t vls,
                                         Routing& routing);

}  // namespace weft::subnet
