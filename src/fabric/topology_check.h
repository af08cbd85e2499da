#pragma once

// Checks that the file reader makes early, while it knows the line, and that validate() repeats.

#include <string_view>

#include "base/ip_address.h"
#include "base/result.h"
#include "fabric/topology.h"

namespace weft::fabric::internal {

/// `what`: "host", "switch" or "HCA".
[[nodiscard]] Result<void> check_name(std::string_view what, std::string_view name);

/// Checks that a topology may assign `address` to a port: it is a unicast address, and not in a
/// range that ports have by position.
[[nodiscard]] Result<void> check_address(const IpAddress& address);
/// Checks all addresses of a topology, and that no two ports share one.
[[nodiscard]] Result<void> check_addresses(const Topology& topology);

/// Checks that no GUID is zero, and that no two nodes and no two ports share one.
[[nodiscard]] Result<void> check_guids(const Topology& topology);

/// Checks that the links of all fault rules exist.
[[nodiscard]] Result<void> check_faults(const Topology& topology);

}  // namespace weft::fabric::internal
