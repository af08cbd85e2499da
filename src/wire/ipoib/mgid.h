#pragma once

// Which InfiniBand groups IP groups are (RFC 4391 §4). Pure functions.

#include <cstdint>

#include "base/identifiers.h"
#include "base/ip_address.h"
#include "base/keys.h"

namespace weft::wire {

/// Scope of a multicast GID (IBTA vol 1 §4.1.1).
inline constexpr std::uint8_t kLinkLocalScope = 2;

/// The group of an IP multicast address, or of 255.255.255.255, in a partition: of IPv4 the low 28
/// bits, of IPv6 the low 80 bits of the address are in it.
[[nodiscard]] Gid ipoib_group(const IpAddress& group, PKey pkey,
                              std::uint8_t scope = kLinkLocalScope);

/// The group that every interface of the partition is in, of IPv4 and IPv6:
/// ff12:401b:P_Key::ffff:ffff.
[[nodiscard]] Gid ipoib_broadcast_group(PKey pkey, std::uint8_t scope = kLinkLocalScope);

/// Where the solicitations for an IPv6 address go (RFC 4291 §2.7.1).
[[nodiscard]] IpAddress solicited_node_group(const IpAddress& address);

/// All nodes of the link, ff02::1.
[[nodiscard]] IpAddress all_nodes_group();

}  // namespace weft::wire
