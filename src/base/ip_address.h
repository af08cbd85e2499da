#pragma once

// IP addresses as value types (RFC 791, RFC 4291), independent of libc and sockets.

#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace weft {

enum class IpFamily : std::uint8_t { V4 = 4, V6 = 6 };

/// An IPv4 or IPv6 address in wire order. IPv4 addresses sort before IPv6 addresses. An IPv4-mapped
/// IPv6 address differs from the IPv4 address; unmapped() converts it.
class IpAddress {
 public:
  static constexpr std::size_t kV4Bytes = 4;
  static constexpr std::size_t kV6Bytes = 16;
  using V4Octets = std::array<std::byte, kV4Bytes>;
  using V6Octets = std::array<std::byte, kV6Bytes>;

  /// 0.0.0.0
  constexpr IpAddress() = default;
  constexpr explicit IpAddress(const V4Octets& octets) {
    std::ranges::copy(octets, octets_.begin());
  }
  constexpr explicit IpAddress(const V6Octets& octets) : family_(IpFamily::V6), octets_(octets) {}

  /// 0x7F000001 is 127.0.0.1.
  [[nodiscard]] static constexpr IpAddress v4(std::uint32_t number) {
    V4Octets octets{};
    for (std::size_t i = 0; i < kV4Bytes; ++i) {
      octets[i] = static_cast<std::byte>(number >> (24 - 8 * i));
    }
    return IpAddress{octets};
  }
  [[nodiscard]] static constexpr IpAddress v6(std::uint64_t high, std::uint64_t low) {
    V6Octets octets{};
    for (std::size_t i = 0; i < 8; ++i) {
      octets[i] = static_cast<std::byte>(high >> (56 - 8 * i));
      octets[8 + i] = static_cast<std::byte>(low >> (56 - 8 * i));
    }
    return IpAddress{octets};
  }

  [[nodiscard]] constexpr IpFamily family() const { return family_; }
  [[nodiscard]] constexpr bool is_v4() const { return family_ == IpFamily::V4; }
  [[nodiscard]] constexpr bool is_v6() const { return family_ == IpFamily::V6; }

  [[nodiscard]] constexpr std::span<const std::byte> octets() const {
    return std::span{octets_}.first(is_v4() ? kV4Bytes : kV6Bytes);
  }
  [[nodiscard]] constexpr unsigned bits() const { return is_v4() ? 32 : 128; }
  /// IPv4 only (asserted).
  [[nodiscard]] V4Octets v4_octets() const;
  [[nodiscard]] std::uint32_t v4_number() const;
  /// IPv6 only (asserted).
  [[nodiscard]] V6Octets v6_octets() const;

  /// 0.0.0.0 or ::, which mean any address when used as a source.
  [[nodiscard]] constexpr bool is_unspecified() const { return octets_ == V6Octets{}; }
  /// 127.0.0.0/8 (RFC 1122 §3.2.1.3) or ::1.
  [[nodiscard]] bool is_loopback() const;
  /// 224.0.0.0/4 or ff00::/8.
  [[nodiscard]] bool is_multicast() const;
  /// 169.254.0.0/16 or fe80::/10.
  [[nodiscard]] bool is_link_local() const;
  /// 255.255.255.255 (RFC 919 §7).
  [[nodiscard]] bool is_limited_broadcast() const;
  /// Converts ::ffff:a.b.c.d to a.b.c.d (RFC 4291 §2.5.5.2); returns other addresses unchanged.
  [[nodiscard]] IpAddress unmapped() const;

  friend constexpr auto operator<=>(const IpAddress&, const IpAddress&) = default;

 private:
  IpFamily family_{IpFamily::V4};
  V6Octets octets_{};  // IPv4: in the first four, the rest zero
};

/// Number of leading bits that two addresses share; 0 for different families.
[[nodiscard]] unsigned common_prefix(const IpAddress& a, const IpAddress& b);

/// Parses `127.77.0.1` or `fe80::1` (RFC 4291 §2.2), without a zone.
[[nodiscard]] Result<IpAddress> parse_ip_address(std::string_view text);
/// Formats as RFC 5952 §4 specifies.
[[nodiscard]] std::string to_string(const IpAddress& address);

/// An interface's address with the length of its subnet prefix.
struct InterfaceAddress {
  IpAddress address;
  std::uint8_t prefix_bits{};

  [[nodiscard]] bool covers(const IpAddress& other) const {
    return other.family() == address.family() && common_prefix(address, other) >= prefix_bits;
  }
  friend constexpr auto operator<=>(const InterfaceAddress&, const InterfaceAddress&) = default;
};

/// Parses `10.0.0.1/24`. The default prefix length is 24 for IPv4 and 64 for IPv6 (policy).
[[nodiscard]] Result<InterfaceAddress> parse_interface_address(std::string_view text);
[[nodiscard]] std::string to_string(const InterfaceAddress& address);

}  // namespace weft
