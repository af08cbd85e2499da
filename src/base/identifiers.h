#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>

#include "base/strong.h"

namespace weft {

/// Local identifier (IBTA vol 1 §4.1.3): 16 bits in InfiniBand headers, held in 32 so that extended
/// LIDs fit.
class Lid {
 public:
  using value_type = std::uint32_t;

  constexpr Lid() = default;
  constexpr explicit Lid(value_type value) : value_(value) {}

  [[nodiscard]] constexpr value_type value() const { return value_; }
  [[nodiscard]] constexpr bool is_unicast() const { return value_ >= 1 && value_ < 0xC000; }
  [[nodiscard]] constexpr bool is_multicast() const { return value_ >= 0xC000 && value_ <= 0xFFFE; }
  [[nodiscard]] constexpr bool is_permissive() const { return value_ == 0xFFFF; }

  friend constexpr auto operator<=>(Lid, Lid) = default;

 private:
  value_type value_{};
};

inline constexpr Lid kPermissiveLid{0xFFFF};

/// EUI-64 of a node, port or system.
using Guid = Ordered<struct GuidTag, std::uint64_t>;

/// Queue pair number, 24 bits.
using Qpn = Ordered<struct QpnTag, std::uint32_t>;

inline constexpr Qpn kQp0{0};                  ///< subnet management interface
inline constexpr Qpn kQp1{1};                  ///< general services interface
inline constexpr Qpn kMulticastQpn{0xFFFFFF};  ///< DestQP of every multicast packet

/// Service level, 4 bits.
using ServiceLevel = Ordered<struct ServiceLevelTag, std::uint8_t>;
/// Virtual lane, 4 bits.
using VirtualLane = Ordered<struct VirtualLaneTag, std::uint8_t>;

/// Port of an HCA, from 1, or of a switch, where port 0 is the management port.
using PortNumber = Ordered<struct PortNumberTag, std::uint8_t>;

/// Global identifier (IBTA vol 1 §4.1.1): 64-bit subnet prefix and 64-bit interface identifier, in
/// wire order.
class Gid {
 public:
  static constexpr std::size_t kSize = 16;

  constexpr Gid() = default;
  constexpr explicit Gid(const std::array<std::byte, kSize>& octets) : octets_(octets) {}
  constexpr Gid(std::uint64_t prefix, Guid interface_id) {
    for (std::size_t i = 0; i < 8; ++i) {
      octets_[i] = static_cast<std::byte>(prefix >> (56 - 8 * i));
      octets_[8 + i] = static_cast<std::byte>(interface_id.value() >> (56 - 8 * i));
    }
  }

  [[nodiscard]] constexpr const std::array<std::byte, kSize>& octets() const { return octets_; }
  [[nodiscard]] constexpr std::uint64_t prefix() const { return half(0); }
  [[nodiscard]] constexpr Guid interface_id() const { return Guid{half(8)}; }
  [[nodiscard]] constexpr bool is_multicast() const { return octets_[0] == std::byte{0xFF}; }
  [[nodiscard]] constexpr bool is_zero() const { return octets_ == std::array<std::byte, kSize>{}; }

  friend constexpr auto operator<=>(const Gid&, const Gid&) = default;

 private:
  [[nodiscard]] constexpr std::uint64_t half(std::size_t at) const {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < 8; ++i) {
      value = value << 8 | std::to_integer<std::uint64_t>(octets_[at + i]);
    }
    return value;
  }

  std::array<std::byte, kSize> octets_{};
};

/// Link-local subnet prefix fe80::/64 (IBTA vol 1 §4.1.1), the default GID prefix.
inline constexpr std::uint64_t kDefaultGidPrefix = 0xFE80'0000'0000'0000;

}  // namespace weft
