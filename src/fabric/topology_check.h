#pragma once

// Checks that the file reader makes early, where it still knows the line, and validate() again.

#include <string_view>

#include "base/result.h"
#include "fabric/topology.h"

namespace weft::fabric::internal {

/// `what`: "host", "switch" or "HCA".
[[nodiscard]] Result<void> check_name(std::string_view what, std::string_view name);

/// An IPv4 or IPv6 literal, as far as its characters say.
[[nodiscard]] Result<void> check_address(std::string_view address);

/// No GUID is zero, no two nodes and no two ports share one.
[[nodiscard]] Result<void> check_guids(const Topology& topology);

/// The links of all rules exist.
[[nodiscard]] Result<void> check_faults(const Topology& topology);

}  // namespace weft::fabric::internal
