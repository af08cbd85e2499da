#pragma once

// Checks that the file reader makes early, where it still knows the line, and validate() again.

#include <string_view>

#include "base/ip_address.h"
#include "base/result.h"
#include "fabric/topology.h"

namespace weft::fabric::internal {

/// `what`: "host", "switch" or "HCA".
[[nodiscard]] Result<void> check_name(std::string_view what, std::string_view name);

/// An address that a topology may give to a port: one of a single host, and none that another port
/// has, or could have, by its position.
[[nodiscard]] Result<void> check_address(const IpAddress& address);
/// That each is one, and no two ports share one.
[[nodiscard]] Result<void> check_addresses(const Topology& topology);

/// No GUID is zero, no two nodes and no two ports share one.
[[nodiscard]] Result<void> check_guids(const Topology& topology);

/// The links of all rules exist.
[[nodiscard]] Result<void> check_faults(const Topology& topology);

}  // namespace weft::fabric::internal
