#pragma once

// What of ib0 stands in the host's own files: which process has it; and eth0's addresses.

#include <string>
#include <vector>

#include "base/ip_address.h"
#include "base/result.h"
#include "os/unique_fd.h"

namespace weft::programs::net {

/// The host's one process that has ib0, as long as the descriptor is open. Exists: another has.
[[nodiscard]] Result<os::UniqueFd> take_interface();
[[nodiscard]] std::vector<IpAddress> addresses_of(const std::string& interface);

}  // namespace weft::programs::net
