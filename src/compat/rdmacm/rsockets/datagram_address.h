#pragma once

// Conversion of datagram names (ulp/rsocket/datagram_name.h) to and from socket addresses. Pure
// functions.

#include <netinet/in.h>
#include <sys/socket.h>

#include <optional>

#include "ulp/rsocket/datagram_name.h"

namespace weft::rsockets {

/// Accepts AF_INET and AF_INET6; nullopt for other families.
[[nodiscard]] std::optional<DatagramName> read_name(const sockaddr* address);

/// For programs: an AF_INET6 socket gets IPv4 addresses in mapped form (RFC 3493 §3.7).
[[nodiscard]] sockaddr_storage for_socket_of(int family, const DatagramName& name);

/// For RDMA-CM, which uses each address in its own family.
[[nodiscard]] sockaddr_storage as_socket_address(const DatagramName& name);

/// For UDP; `name` must have an IPv4 address.
[[nodiscard]] sockaddr_in as_udp_address(const DatagramName& name);

/// Pairs addresses by formula; addresses from the topology have no counterpart.
[[nodiscard]] AddressBook address_book();

}  // namespace weft::rsockets
