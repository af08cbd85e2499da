#pragma once

#include <string>

#include "fabric/topology.h"

namespace weft::fabric {

/// A Graphviz graph: hosts as ellipses, switches as boxes, cables with their port numbers. If
/// switches differ in their distance to hosts, as in a tree, each distance is a row.
[[nodiscard]] std::string write_dot(const Topology& topology);

/// A drawing for browsers with the same shapes: in rows if write_dot() has rows, else in circles
/// with the hosts outside, each near its switch.
[[nodiscard]] std::string write_svg(const Topology& topology);

}  // namespace weft::fabric
