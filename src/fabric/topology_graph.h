#pragma once

#include <string>

#include "fabric/topology.h"

namespace weft::fabric {

/// For Graphviz: hosts as ellipses, switches as boxes, cables with their port numbers. Where some
/// switches are farther from any host than others, as in a tree, they stand in rows of their own.
[[nodiscard]] std::string write_dot(const Topology& topology);

}  // namespace weft::fabric
