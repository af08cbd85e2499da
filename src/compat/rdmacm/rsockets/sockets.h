#pragma once

// The streams of this program by their numbers, and what is done with several or from outside.

#include <poll.h>
#include <sys/socket.h>

#include <memory>

#include "compat/rdmacm/rsockets/stream.h"

namespace weft::rsockets {

/// Null when the number is no stream's.
[[nodiscard]] std::shared_ptr<Stream> find_stream(int number);

/// poll(2) for streams and ordinary descriptors (polling.cc).
[[nodiscard]] int poll_all(pollfd* wanted, nfds_t count, int timeout_ms);

/// setsockopt(2) and getsockopt(2) (options.cc).
[[nodiscard]] int set_option(Stream& stream, int level, int name, const void* value,
                             socklen_t bytes);
[[nodiscard]] int get_option(Stream& stream, int level, int name, void* value, socklen_t* bytes);

}  // namespace weft::rsockets
