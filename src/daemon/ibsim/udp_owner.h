#pragma once

// Whose a UDP port of this machine is. Datagrams of the loopback do not carry it, as those of local
// sockets do; the kernel's tables say it.

#include <sys/types.h>

#include <cstdint>
#include <istream>
#include <optional>

namespace weft::daemon {

/// The inode of the socket of `user` that is bound to the port, in a table as /proc/net/udp is;
/// none if nobody has it, or anybody else has one, too.
[[nodiscard]] std::optional<std::uint64_t> find_udp_socket(std::istream& table, std::uint16_t port,
                                                           uid_t user);

/// The process of this user that has the port.
[[nodiscard]] std::optional<pid_t> find_udp_owner(std::uint16_t port);

}  // namespace weft::daemon
