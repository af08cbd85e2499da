#pragma once

// What a datagram socket and its peers are called: an IP address and a UDP port; and how UDP of the
// machine itself reaches a name. Values.
//
// Linux has all of 127/8 on loopback and none of the hosts' IPv6 addresses, so UDP goes between
// their IPv4 addresses, and the header says which name is meant (fabric/addresses.h; an address
// that the topology gives has none beside it).

#include <netinet/in.h>
#include <sys/socket.h>

#include <compare>
#include <cstdint>
#include <optional>

#include "base/ip_address.h"

namespace weft::rsockets {

struct DatagramName {
  IpAddress address;     // never IPv4-mapped: that is the IPv4 address
  std::uint16_t port{};  // in the host's order
  friend constexpr auto operator<=>(const DatagramName&, const DatagramName&) = default;
};

/// Of AF_INET or AF_INET6; nothing for another family.
[[nodiscard]] std::optional<DatagramName> read_name(const sockaddr* address);

/// For programs: a socket of AF_INET6 has IPv4 addresses in their mapped form (RFC 3493 §3.7).
[[nodiscard]] sockaddr_storage for_socket_of(int family, const DatagramName& name);

/// For RDMA-CM, which has each address in its own family.
[[nodiscard]] sockaddr_storage as_socket_address(const DatagramName& name);

/// Where UDP finds whoever has this name; nothing: nowhere.
[[nodiscard]] std::optional<sockaddr_in> udp_address_of(const DatagramName& name);

/// Whoever calls is meant: 127.0.0.0/16 and ::1; and no address is any of the own ones.
[[nodiscard]] bool is_own_whatever(const IpAddress& address);

/// The names of one socket, with one port: one address of each family that it speaks.
struct OwnNames {
  std::optional<IpAddress> v4{};
  std::optional<IpAddress> v6{};
  std::uint16_t port{};

  [[nodiscard]] const std::optional<IpAddress>& of(IpFamily family) const {
    return family == IpFamily::V4 ? v4 : v6;
  }
  /// The one that it is called by; one is there.
  [[nodiscard]] DatagramName main() const { return {.address = v6 ? *v6 : *v4, .port = port}; }
};

}  // namespace weft::rsockets
