#pragma once

// Mapping of IP multicast addresses to InfiniBand MGIDs (RFC 4391 §4). Pure functions.

#include <cstdint>

#include "base/identifiers.h"
#include "base/ip_address.h"
#include "base/keys.h"

namespace weft::wire {

/// Scope of a multicast GID (IBTA vol 1 §4.1.1).
inline constexpr std::uint8_t kLinkLocalScope = 2;

/// The MGID of an IP multicast address, or of 255.255.255.255, in a partition. It contains the low
/// 28 bits of an IPv4 address, or the low 80 bits of an IPv6 address.
[[nodiscard]] Gid ipoib_group(const IpAddress& group, PKey pkey,
                              std::uint8_t scope = kLinkLocalScope);

/// The broadcast group of a partition, which all IPv4 and IPv6 interfaces join:
/// ff12:401b:P_Key::ffff:ffff.
[[nodiscard]] Gid ipoib_broadcast_group(PKey pkey, std::uint8_t scope = kLinkLocalScope);

/// Solicited-node multicast address of an IPv6 address (RFC 4291 §2.7.1).
[[nodiscard]] IpAddress solicited_node_group(const IpAddress& address);

/// All-nodes multicast address, ff02::1.
[[nodiscard]] IpAddress all_nodes_group();

}  // namespace weft::wire
