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

/// A RoCE v2 packet in its Ethernet frame (IBTA annex A17). IP and UDP fields are kept as captured,
/// so that a dissected frame packs to the same bytes; `serialise` recomputes only pad and ICRC.
struct RocePacket {
  Ethernet ethernet;
  std::optional<Vlan> vlan;
  std::variant<Ipv4, Ipv6> ip;
  Udp udp;
  TransportHeaders transport;
  std::span<const std::byte> payload;
};

/// One's complement checksum of an IPv4 header, with the checksum field taken as zero (R-UD-4, RFC
/// 791 §3.1).
[[nodiscard]] std::uint16_t ipv4_checksum(const Ipv4& header);

void serialise(const RocePacket& packet, std::vector<std::byte>& out);

/// True if the frame is RoCE v2 (UDP port 4791); its contents are not checked.
[[nodiscard]] bool is_roce_v2(std::span<const std::byte> frame);

/// Dissects a frame; `payload` points into it. Ethernet padding after the UDP datagram is ignored.
/// Fails with NotSupported for other protocols, and with Io for a malformed packet.
[[nodiscard]] Result<RocePacket> parse_roce_packet(std::span<const std::byte> frame,
                                                   CrcCheck check);

/// The ICRC found in a frame and the correct one.
struct RoceIcrc {
  std::array<std::byte, 4> found;
  std::array<std::byte, 4> expected;
};

/// `packet` must be the result of parse_roce_packet for this frame.
[[nodiscard]] RoceIcrc icrc_of(const RocePacket& packet, std::span<const std::byte> frame);

}  // namespace weft::wire
