#pragma once

// The sockets of this program by their numbers, and what is done with several or from outside.

#include <poll.h>
#include <sys/socket.h>

#include <memory>

#include "compat/rdmacm/rsockets/socket.h"

namespace weft::rsockets {

/// Null when the number is no socket's.
[[nodiscard]] std::shared_ptr<Socket> find_socket(int number);

/// poll(2) for sockets and ordinary descriptors (polling.cc).
[[nodiscard]] int poll_all(pollfd* wanted, nfds_t count, int timeout_ms);

/// setsockopt(2) and getsockopt(2) (options.cc).
[[nodiscard]] int set_option(Socket& socket, int level, int name, const void* value,
                             socklen_t bytes);
[[nodiscard]] int get_option(Socket& socket, int level, int name, void* value, socklen_t* bytes);

}  // namespace weft::rsockets
