#pragma once

// Topologies in the form that ibnetdiscover prints and ibsim reads ("net files"), which
// topology_net.cc describes. It covers nodes, ports, GUIDs, LMC and cables, but not addresses,
// P_Keys, MTU, rates, delays and links that are not InfiniBand's.

#include <string>
#include <string_view>

#include "base/result.h"
#include "fabric/topology.h"

namespace weft::fabric {

/// Decides by the first line that is not a comment; other text is for read_topology().
[[nodiscard]] bool looks_like_net(std::string_view text);

/// `origin` names the text in errors, which give the line and a remedy. The result is valid.
[[nodiscard]] Result<Topology> read_net(std::string_view text,
                                        std::string_view origin = "topology");

/// A net file that read_net() parses to the same nodes, GUIDs, LMC and cables, of the InfiniBand
/// part alone; ibsim reads it, too.
[[nodiscard]] std::string write_net(const Topology& topology);

}  // namespace weft::fabric
