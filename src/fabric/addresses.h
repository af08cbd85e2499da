#pragma once

// The IP addresses of the ports of hosts (docs/ARCHITECTURE.md, decision 16). They follow from the
// host's position in the topology, N, counted from 1, and from the port's position k among the
// ports of all the host's HCAs, counted from 0:
//
//   127.(77+k).x.y/8  x.y is N in two octets. Linux assigns all of 127/8 to loopback, so sockets
//                     reach it without set-up, IPv6 sockets as ::ffff:127.77.x.y. N up to 65,535,
//                     k up to 177.
//   fe80::.../64      from the port's GUID, as IPoIB does (RFC 4391 §8). Sockets cannot use it.
//   fd77::k:0:0:N/48  unique local (RFC 4193); N and k in hex, so fd77::1 is h1's. RDMA-CM needs no
//                     set-up; for sockets it must be assigned to `lo`
//                     (`ip addr add fd77::1/128 dev lo`, in a namespace with a root of its own).
//
// Addresses of the topology come on top. No two collide, since N and k are part of all of them.
// Pure functions.

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/identifiers.h"
#include "base/ip_address.h"
#include "fabric/topology.h"

namespace weft::fabric {

inline constexpr std::uint32_t kMaxHostsWithIpv4 = 0xFFFF;
inline constexpr std::uint32_t kMaxPortsWithIpv4 = 178;  // 127.255 has a broadcast address

/// The address by formula; nullopt beyond the limits.
[[nodiscard]] std::optional<IpAddress> ipv4_of(std::uint32_t host, std::uint32_t port_of_host);
[[nodiscard]] IpAddress ipv6_of(std::uint32_t host, std::uint32_t port_of_host);
/// The link-local address of a port (RFC 4391 §8): its GUID with the universal bit set.
[[nodiscard]] IpAddress link_local_of(Guid guid);

/// Converts between the IPv4 and IPv6 address by formula of one port; returns an address of the
/// wanted family unchanged, and nullopt for an address that is not by formula.
[[nodiscard]] std::optional<IpAddress> ipv4_beside(const IpAddress& address);
[[nodiscard]] std::optional<IpAddress> ipv6_beside(const IpAddress& address);

/// All addresses of port `port_of_host` of the host at position `host`: those by formula, then the
/// topology's.
[[nodiscard]] std::vector<InterfaceAddress> addresses_of(const Topology& topology,
                                                         std::uint32_t host,
                                                         std::uint32_t port_of_host);

/// The first address of a host's first port, for WEFT_LOOPBACK=h1; nullopt if there is no such
/// host.
[[nodiscard]] std::optional<IpAddress> main_address_of(const Topology& topology,
                                                       std::string_view host);

}  // namespace weft::fabric
