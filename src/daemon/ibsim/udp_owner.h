#pragma once

// The owner of a local UDP port. Unlike those of local sockets, loopback UDP datagrams carry no
// credentials, so the owner is looked up in the kernel's tables.

#include <sys/types.h>

#include <cstdint>
#include <istream>
#include <optional>

namespace weft::daemon {

/// The inode of the user's socket bound to the port, in a table with the format of /proc/net/udp;
/// none if there is no such socket, or if another user has one on the port.
[[nodiscard]] std::optional<std::uint64_t> find_udp_socket(std::istream& table, std::uint16_t port,
                                                           uid_t user);

/// The process of this user that owns the port.
[[nodiscard]] std::optional<pid_t> find_udp_owner(std::uint16_t port);

}  // namespace weft::daemon
