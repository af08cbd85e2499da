#pragma once

// The IP network between a fabric's hosts: each has `eth0` with the host's addresses, all are
// connected to one bridge in a network namespace of their own. It carries what programs say to each
// other before they speak RDMA (perftest's parameters, ssh, MPI's launcher). 127.77.0.1 and its
// like are addresses there, not of the loopback interface.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "os/unique_fd.h"

namespace weft::namespaces {

/// In the hub's network namespace: the bridge.
[[nodiscard]] Result<void> make_hub();

/// In the host's new network namespace: lo, and eth0 whose other end becomes port `index` of the
/// bridge in `hub`.
[[nodiscard]] Result<void> connect_host(const os::UniqueFd& hub, std::uint32_t index,
                                        const std::vector<std::string>& addresses);

}  // namespace weft::namespaces
