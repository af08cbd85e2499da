#pragma once

// An IP packet of TCP, as far as cutting it up or putting it together needs. Pure functions.

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "wire/tcp.h"

namespace weft::offload {

/// Where its parts are, from the first octet of the frame or packet.
struct TcpPacket {
  bool is_ipv6{};
  std::size_t network_at{};
  std::size_t transport_at{};
  std::size_t data_at{};
  wire::Tcp tcp{};
};

/// `network_at` is where the IP header is. None: it is no TCP over IPv4 without options or over
/// IPv6 without further headers, it is a fragment, or its headers are cut off.
[[nodiscard]] std::optional<TcpPacket> parse_tcp(ByteSpan packet, std::size_t network_at);

/// The length that the IP header tells, of everything behind the frame's header.
[[nodiscard]] std::size_t told_bytes(ByteSpan packet, const TcpPacket& at);

/// Writes the lengths of the IP header, the identification of an IPv4 one and its checksum.
/// `packet` has at most 65,535 octets behind the frame's header.
void set_lengths(MutableByteSpan packet, const TcpPacket& at, std::uint16_t identification);
[[nodiscard]] std::uint16_t identification_of(ByteSpan packet, const TcpPacket& at);

/// The sum of the pseudo header for the whole of `packet` (RFC 9293 §3.1, RFC 8200 §8.1).
[[nodiscard]] std::uint16_t pseudo_header_sum(ByteSpan packet, const TcpPacket& at);

/// Whether the checksums of an IPv4 header and of TCP are right.
[[nodiscard]] bool has_right_checksums(ByteSpan packet, const TcpPacket& at);

/// Writes the TCP header, whose checksum is that of the packet or, if `is_complete` is false, the
/// sum of the pseudo header.
void set_tcp(MutableByteSpan packet, const TcpPacket& at, wire::Tcp header,
             bool is_complete = true);

}  // namespace weft::offload
