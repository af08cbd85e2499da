#pragma once

// What the data path has to know of an Ethernet frame. Pure functions of foreign bytes.

#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "wire/mac_address.h"

namespace weft::opa_vnic {

/// Kinds of packets, which may take different routes (R-VN-16), in the order of their bits in
/// VeswInfo::routing_control: four for each.
enum class PacketKind : std::uint8_t { Other, Ipv4, Ipv4Udp, Ipv4Tcp, Ipv6, Ipv6Tcp, Ipv6Udp };

struct FrameFacts {
  wire::MacAddress destination{};
  wire::MacAddress source{};
  std::optional<std::uint8_t> priority{};  ///< PCP of the VLAN tag; none: untagged
  PacketKind kind{};
  std::uint8_t entropy{};  ///< the same for all frames of a flow
};

/// None: shorter than an Ethernet header. Of what is cut off behind it nothing is known: Other.
[[nodiscard]] std::optional<FrameFacts> facts_of(ByteSpan frame);

/// The three bits of `word` for this kind.
[[nodiscard]] constexpr std::uint8_t routing_control(std::uint32_t word, PacketKind kind) {
  constexpr unsigned kBitsOfKind = 4;
  return static_cast<std::uint8_t>(word >> (kBitsOfKind * static_cast<unsigned>(kind)) & 7U);
}

}  // namespace weft::opa_vnic
