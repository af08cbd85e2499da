#pragma once

// What `weft srp discover` prints of the ports that it has read. Pure.

#include <string>
#include <string_view>
#include <vector>

#include "base/keys.h"
#include "ulp/srp/discovery.h"
#include "ulp/srp/managed_ports.h"

namespace weft::programs::srp {

/// A port that says that it answers device management, and what it has answered.
struct FoundPort {
  weft::srp::ManagedPort port{};
  PKey pkey{};  ///< of the path to it
  weft::srp::Discovery discovery{};
  std::string failure{};  ///< why not all of it was read; empty: all was
};

/// What srp_daemon -c and ibsrpdm -c print, and weft srp attach takes: a line for each target.
[[nodiscard]] std::vector<std::string> connect_strings(const std::vector<FoundPort>& ports);
[[nodiscard]] std::string discovery_text(const std::vector<FoundPort>& ports);
/// With the octets of each attribute.
[[nodiscard]] std::string discovery_json(const std::vector<FoundPort>& ports);

/// Lines that are new, after "+ ", and that are no longer there, after "- ".
[[nodiscard]] std::vector<std::string> changes_of(const std::vector<std::string>& before,
                                                  const std::vector<std::string>& now);

}  // namespace weft::programs::srp
