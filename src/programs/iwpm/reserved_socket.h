#pragma once

// The socket by which rdma-core's iwpmd keeps a port. iwpmd binds a TCP socket to each port that it
// maps to and does nothing else with it: on Linux the adapter has a TCP stack of its own, to which
// the port belongs now. A driver without one uses that very socket, as a kernel could.

#include <cstdint>

#include "base/result.h"
#include "os/unique_fd.h"
#include "wire/iwpm/socket_address.h"

namespace weft::programs::iwpm {

/// Another descriptor of it. NotFound: no iwpmd of this network namespace keeps the port, or it is
/// another user's.
[[nodiscard]] Result<os::UniqueFd> reserved_socket(const wire::iwpm::SocketAddress& address);

/// To be used for TCP at a mapped address: a socket of its own, or iwpmd's.
[[nodiscard]] Result<os::UniqueFd> mapped_socket(const wire::iwpm::SocketAddress& address);

}  // namespace weft::programs::iwpm
