#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/flags.h"
#include "wire/ipoib/hardware_address.h"
#include "wire/layout.h"

namespace weft::wire {

inline constexpr std::uint8_t kProtocolIcmpv6 = 58;
/// Hop limit of all neighbour discovery packets, which proves that no router forwarded them (RFC
/// 4861 §7.1).
inline constexpr std::uint8_t kNeighborHopLimit = 255;

enum class NeighborMessageType : std::uint8_t { Solicitation = 135, Advertisement = 136 };

/// Flags of an advertisement (RFC 4861 §4.4).
enum class NeighborFlag : std::uint8_t {
  Router = 1U << 2,
  Solicited = 1U << 1,
  Override = 1U << 0,
};

/// Neighbor Solicitation and Neighbor Advertisement (RFC 4861 §4.3, §4.4). The flags are reserved
/// in a solicitation.
struct NeighborDiscovery {
  static constexpr std::string_view kName = "ICMPv6 neighbor discovery";

  NeighborMessageType type{};
  std::uint8_t code{};
  std::uint16_t checksum{};
  Flags<NeighborFlag> flags{};
  std::array<std::byte, 16> target{};
  bool operator==(const NeighborDiscovery&) const = default;

  // clang-format off
  using Wire = Layout<24,
      Field<"Type", 8, &NeighborDiscovery::type>,
      Field<"Code", 8, &NeighborDiscovery::code>,
      Field<"Checksum", 16, &NeighborDiscovery::checksum>,
      Field<"Flags", 3, &NeighborDiscovery::flags>,
      Reserved<29>,
      Octets<"TargetAddress", 16, &NeighborDiscovery::target>>;
  // clang-format on
};

enum class NeighborOption : std::uint8_t { SourceLinkLayer = 1, TargetLinkLayer = 2 };

/// Link-layer address option for IPoIB (RFC 4391 §9.3). The length is in units of 8 bytes.
struct IpoibLinkLayerOption {
  static constexpr std::string_view kName = "Link-layer address option";
  static constexpr std::uint8_t kUnits = 3;

  NeighborOption type{};
  std::uint8_t length{kUnits};
  IpoibHardwareAddress address{};
  bool operator==(const IpoibLinkLayerOption&) const = default;

  // clang-format off
  using Wire = Layout<24,
      Field<"Type", 8, &IpoibLinkLayerOption::type>,
      Field<"Length", 8, &IpoibLinkLayerOption::length>,
      Reserved<16>,
      Nested<&IpoibLinkLayerOption::address>>;
  // clang-format on
};

}  // namespace weft::wire
