#pragma once

#include <array>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "base/result.h"
#include "wire/ethernet.h"
#include "wire/ib_packet.h"
#include "wire/ipv4.h"
#include "wire/ipv6.h"
#include "wire/transport_headers.h"
#include "wire/udp.h"
#include "wire/vlan.h"

namespace weft::wire {

inline constexpr std::uint16_t kRoceUdpPort = 4791;

/// One RoCE v2 packet in its Ethernet frame (IBTA annex A17). IP and UDP keep every field as
/// captured, so that a dissected frame packs to the same bytes; what `serialise` makes anew is pad
/// and ICRC.
struct RocePacket {
  Ethernet ethernet;
  std::optional<Vlan> vlan;
  std::variant<Ipv4, Ipv6> ip;
  Udp udp;
  TransportHeaders transport;
  std::span<const std::byte> payload;
};

/// Sum of an IPv4 header's words, ones' complement, with the checksum field taken as zero (R-UD-4,
/// RFC 791 §3.1).
[[nodiscard]] std::uint16_t ipv4_checksum(const Ipv4& header);

void serialise(const RocePacket& packet, std::vector<std::byte>& out);

/// Whether the frame is RoCE v2 at all (UDP to port 4791), before its insides are looked at.
[[nodiscard]] bool is_roce_v2(std::span<const std::byte> frame);

/// Dissects a frame; `payload` points into it. Bytes after the UDP datagram (Ethernet padding) are
/// left out. Another protocol is refused as NotSupported, a malformed packet as Io.
[[nodiscard]] Result<RocePacket> parse_roce_packet(std::span<const std::byte> frame,
                                                   CrcCheck check);

/// The ICRC of a frame and as it should be.
struct RoceIcrc {
  std::array<std::byte, 4> found;
  std::array<std::byte, 4> expected;
};

/// Of the frame that parse_roce_packet made `packet` of.
[[nodiscard]] RoceIcrc icrc_of(const RocePacket& packet, std::span<const std::byte> frame);

}  // namespace weft::wire
