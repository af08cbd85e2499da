#pragma once

// What a datagram socket and its peers are called: an IP address and a UDP port; and how UDP of the
// machine itself reaches a name. Values; pure functions.
//
// Linux has all of 127/8 on loopback and none of the hosts' IPv6 addresses, so UDP goes between
// their IPv4 addresses, and the header says which name is meant.

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

/// Which addresses a host's port has beside one another: the one of the family asked for, of the
/// port that has this address. Nothing: the book does not know (fabric/addresses.h).
struct AddressBook {
  std::optional<IpAddress> (*ipv4_beside)(const IpAddress& address){};
  std::optional<IpAddress> (*ipv6_beside)(const IpAddress& address){};
};

/// 127.0.0.0/16, ::1 and no address: as a destination the own host, as an own address whatever the
/// host is called.
[[nodiscard]] bool is_own_or_loopback(const IpAddress& address);

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

/// What a socket is, as far as names go.
struct DatagramFamily {
  IpFamily family{IpFamily::V4};  ///< of the socket: AF_INET or AF_INET6
  bool is_v6_only{};              ///< IPV6_V6ONLY
};

/// Of a socket that leaves the choice, on a host that has this address: both families' if the
/// socket speaks both (RFC 3493 §3.7, §5.3).
[[nodiscard]] OwnNames names_beside(const IpAddress& host, DatagramFamily socket,
                                    const AddressBook& book);

/// Of a socket that a program bound to `wish`, which is_own_or_loopback(), on a host that has the
/// address `host`. Both versions are heard on :: and on ::1, unless the socket is of IPv6 alone:
/// hosts share the machine's loopback, so ::1 means the host as others know it, and a server that
/// asks getaddrinfo(3) for no address has it (udpong does).
[[nodiscard]] OwnNames names_of_whatever(const DatagramName& wish, const IpAddress& host,
                                         DatagramFamily socket, const AddressBook& book);

/// Of a socket that a program bound to an address of its own choice.
[[nodiscard]] OwnNames names_of(const DatagramName& wish);

}  // namespace weft::rsockets
