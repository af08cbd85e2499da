#pragma once

// Socket addresses of the system as the port mapper has them, and this host's own.

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/ip_address.h"
#include "base/result.h"
#include "os/unique_fd.h"
#include "wire/iwpm/socket_address.h"

namespace weft::programs::iwpm {

struct RawAddress {
  sockaddr_storage storage{};
  socklen_t size{};
};
[[nodiscard]] RawAddress raw(const wire::iwpm::SocketAddress& address);
/// None: it is no IP address.
[[nodiscard]] std::optional<wire::iwpm::SocketAddress> address_of(const sockaddr* address);

/// A socket of this type, bound to the address. AddressInUse: another has it.
[[nodiscard]] Result<os::UniqueFd> bound_socket(int type, const wire::iwpm::SocketAddress& address);
[[nodiscard]] std::uint16_t port_of(const os::UniqueFd& socket);

/// Whether an interface of this network namespace has the address.
[[nodiscard]] bool has_address(const IpAddress& address);

/// `10.77.0.1:5000` or `[fe80::1]:5000`.
[[nodiscard]] Result<wire::iwpm::SocketAddress> parse_address(std::string_view text);

}  // namespace weft::programs::iwpm
