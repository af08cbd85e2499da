#pragma once

// The rsockets of this program by number, and operations on several of them. Any thread.

#include <poll.h>
#include <sys/socket.h>

#include <memory>

#include "compat/rdmacm/rsockets/socket.h"

namespace weft::rsockets {

/// Null if `number` is not an rsocket.
[[nodiscard]] std::shared_ptr<Socket> find_socket(int number);

/// poll(2) for sockets and ordinary descriptors (polling.cc).
[[nodiscard]] int poll_all(pollfd* wanted, nfds_t count, int timeout_ms);

/// setsockopt(2) and getsockopt(2) (options.cc).
[[nodiscard]] int set_option(Socket& socket, int level, int name, const void* value,
                             socklen_t bytes);
[[nodiscard]] int get_option(Socket& socket, int level, int name, void* value, socklen_t* bytes);

}  // namespace weft::rsockets
