#pragma once

#include <string>

#include "fabric/topology.h"

namespace weft::fabric {

/// For Graphviz: hosts as ellipses, switches as boxes, cables with their port numbers. Where some
/// switches are farther from any host than others, as in a tree, they stand in rows of their own.
[[nodiscard]] std::string write_dot(const Topology& topology);

/// A drawing as it is, for browsers, with the same shapes: in rows where write_dot() has rows, else
/// in circles, hosts outside and each near its switch.
[[nodiscard]] std::string write_svg(const Topology& topology);

}  // namespace weft::fabric
