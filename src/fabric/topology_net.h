#pragma once

// Topologies as ibnetdiscover prints them and ibsim reads them ("net files"), described at the top
// of topology_net.cc. The form knows nodes, ports, GUIDs, LMC and cables, and no addresses, P_Keys,
// MTU, rates or delays.

#include <string>
#include <string_view>

#include "base/result.h"
#include "fabric/topology.h"

namespace weft::fabric {

/// By its first line that is not a comment; any other text is for read_topology().
[[nodiscard]] bool looks_like_net(std::string_view text);

/// `origin` names the text in errors, which say the line and what would work. What is read is
/// valid.
[[nodiscard]] Result<Topology> read_net(std::string_view text,
                                        std::string_view origin = "topology");

/// Net file that read_net() reads back to the same nodes, GUIDs, LMC and cables, and ibsim too.
[[nodiscard]] std::string write_net(const Topology& topology);

}  // namespace weft::fabric
