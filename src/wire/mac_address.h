#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>

namespace weft::wire {

/// A 48-bit Ethernet address in wire order (IEEE 802 §8.2).
class MacAddress {
 public:
  static constexpr std::size_t kSize = 6;

  constexpr MacAddress() = default;
  constexpr explicit MacAddress(const std::array<std::byte, kSize>& octets) : octets_(octets) {}

  /// 0x0200'0000'0001 is 02:00:00:00:00:01.
  [[nodiscard]] static constexpr MacAddress from_number(std::uint64_t number) {
    std::array<std::byte, kSize> octets{};
    for (std::size_t i = 0; i < kSize; ++i) {
      octets[i] = static_cast<std::byte>(number >> (40 - 8 * i));
    }
    return MacAddress{octets};
  }

  [[nodiscard]] constexpr std::uint64_t number() const {
    std::uint64_t number = 0;
    for (const std::byte octet : octets_) {
      number = number << 8 | std::to_integer<std::uint64_t>(octet);
    }
    return number;
  }
  [[nodiscard]] constexpr const std::array<std::byte, kSize>& octets() const { return octets_; }
  [[nodiscard]] constexpr bool is_zero() const { return number() == 0; }
  /// The I/G bit, which broadcast has too.
  [[nodiscard]] constexpr bool is_multicast() const {
    return (octets_[0] & std::byte{1}) != std::byte{};
  }
  [[nodiscard]] constexpr bool is_broadcast() const { return number() == 0xFFFF'FFFF'FFFF; }
  /// The U/L bit.
  [[nodiscard]] constexpr bool is_locally_administered() const {
    return (octets_[0] & std::byte{2}) != std::byte{};
  }

  friend constexpr auto operator<=>(const MacAddress&, const MacAddress&) = default;

 private:
  std::array<std::byte, kSize> octets_{};
};

}  // namespace weft::wire
