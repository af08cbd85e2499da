#pragma once

// Which IP addresses the ports of hosts answer to (docs/ARCHITECTURE.md, decision 16). By position,
// counted from 1 as N, and by the port, counted over the host's HCAs from 0 as k:
//
//   127.(77+k).x.y/8   x.y is N in two octets. All of 127/8 is Linux's own on loopback, so the
//                      sockets of programs reach it without set-up; as ::ffff:127.77.x.y by IPv6
//                      sockets, too. For N up to 65,535 and k up to 177.
//   fe80::.../64       made of the port's GUID as IPoIB does (RFC 4391 §8). Sockets have no use for
//   it. fd77::k:0:0:N/48   unique local (RFC 4193); N and k in hex, so fd77::1 is h1's. Programs
//   that
//                      only use it with RDMA-CM need nothing; for sockets it has to be given to
//                      `lo` (`ip addr add fd77::1/128 dev lo`, in a namespace as an own root).
//
// and what the topology adds. No two collide: N and k are in all of them. Pure functions.

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

/// By formula; none beyond the limits.
[[nodiscard]] std::optional<IpAddress> ipv4_of(std::uint32_t host, std::uint32_t port_of_host);
[[nodiscard]] IpAddress ipv6_of(std::uint32_t host, std::uint32_t port_of_host);
/// The link-local address of a port (RFC 4391 §8): its GUID with the universal bit set.
[[nodiscard]] IpAddress link_local_of(Guid guid);

/// The IPv4 or IPv6 address by formula of the port that has the other by formula; an address of the
/// family itself as it is. Nothing for an address that is by no formula.
[[nodiscard]] std::optional<IpAddress> ipv4_beside(const IpAddress& address);
[[nodiscard]] std::optional<IpAddress> ipv6_beside(const IpAddress& address);

/// All addresses of the k-th port of the host at position `host`: by formula, then the topology's.
[[nodiscard]] std::vector<InterfaceAddress> addresses_of(const Topology& topology,
                                                         std::uint32_t host,
                                                         std::uint32_t port_of_host);

/// The first port of a host, for WEFT_LOOPBACK=h1; none: no such host.
[[nodiscard]] std::optional<IpAddress> main_address_of(const Topology& topology,
                                                       std::string_view host);

}  // namespace weft::fabric
