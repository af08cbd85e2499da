#pragma once

// What of ib0 and its children stands in the host's own files: which process has it; and what other
// interfaces have.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/ip_address.h"
#include "base/result.h"
#include "os/unique_fd.h"

namespace weft::programs::net {

/// The host's one process that has the interface, as long as the descriptor is open. Exists:
/// another has.
[[nodiscard]] Result<os::UniqueFd> take_interface(const std::string& name,
                                                  std::string_view service);
/// NotFound: no such interface is up.
[[nodiscard]] Result<std::uint32_t> mtu_of(const std::string& interface);
[[nodiscard]] std::vector<IpAddress> addresses_of(const std::string& interface);

}  // namespace weft::programs::net
