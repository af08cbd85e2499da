#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "wire/layout.h"

namespace weft::wire {

inline constexpr std::uint16_t kEtherTypeIpv4 = 0x0800;
inline constexpr std::uint16_t kEtherTypeVlan = 0x8100;
inline constexpr std::uint16_t kEtherTypeIpv6 = 0x86DD;

/// Ethernet II header (IEEE 802.3 §3.2).
struct Ethernet {
  static constexpr std::string_view kName = "Ethernet";

  std::array<std::byte, 6> destination{};
  std::array<std::byte, 6> source{};
  std::uint16_t ether_type{};
  bool operator==(const Ethernet&) const = default;

  // clang-format off
  using Wire = Layout<14,
      Octets<"Destination", 6, &Ethernet::destination>,
      Octets<"Source", 6, &Ethernet::source>,
      Field<"EtherType", 16, &Ethernet::ether_type>>;
  // clang-format on
};

}  // namespace weft::wire
