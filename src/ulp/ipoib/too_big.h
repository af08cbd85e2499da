#pragma once

// What a host is told of a packet that is too long for the link or the connection (RFC 792, RFC
// 1191 §4, RFC 4443 §3.2): interfaces of different MTUs are on one link, as datagram and connected
// mode mix (RFC 4755 §5.1). Pure.

#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"

namespace weft::ipoib {

/// Largest MTUs: of a connection with the 4-octet header (RFC 4755 §5), and of datagrams with a
/// 4096-octet IB MTU.
inline constexpr std::uint32_t kMaxConnectedMtu = 65'520;
inline constexpr std::uint32_t kHeaderBytes = 4;

/// An ICMP "fragmentation needed" or ICMPv6 "packet too big" message to the sender of the packet,
/// with the MTU that would do. None for what nobody may be told of: no IP packet, a later fragment,
/// a multicast destination with IPv4, an unspecified or multicast source, an ICMP error; and an
/// IPv4 packet that may be fragmented.
[[nodiscard]] std::optional<std::vector<std::byte>> make_too_big(ByteSpan packet,
                                                                 std::uint32_t mtu);

}  // namespace weft::ipoib
