#pragma once

// Names of datagram sockets (ulp/rsocket/datagram_name.h) as addresses of sockets. Values.

#include <netinet/in.h>
#include <sys/socket.h>

#include <optional>

#include "ulp/rsocket/datagram_name.h"

namespace weft::rsockets {

/// Of AF_INET or AF_INET6; nothing for another family.
[[nodiscard]] std::optional<DatagramName> read_name(const sockaddr* address);

/// For programs: a socket of AF_INET6 has IPv4 addresses in their mapped form (RFC 3493 §3.7).
[[nodiscard]] sockaddr_storage for_socket_of(int family, const DatagramName& name);

/// For RDMA-CM, which has each address in its own family.
[[nodiscard]] sockaddr_storage as_socket_address(const DatagramName& name);

/// For UDP, of an IPv4 address.
[[nodiscard]] sockaddr_in as_udp_address(const DatagramName& name);

/// Addresses by formula; those that a topology adds have none beside them.
[[nodiscard]] AddressBook address_book();

}  // namespace weft::rsockets
