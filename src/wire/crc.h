#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace weft::wire {

/// Invariant CRC (IBTA vol 1 §7.8.1; RoCEv2: annex A17 §17.3.3): CRC-32 of Ethernet, taken over
/// pieces in order. The caller passes headers with their variant fields already replaced by ones
/// (`masked_*` in packet.h).
class Icrc {
 public:
  void add(std::span<const std::byte> piece);

  /// The four bytes as they follow the pad on the wire.
  [[nodiscard]] std::array<std::byte, 4> bytes() const;

 private:
  std::uint32_t state_{0};  // of ISA-L, which complements at both ends
};

/// Variant CRC (IBTA vol 1 §7.8.2): CRC-16 with polynomial 0x100B over the whole packet, made anew
/// on each link.
class Vcrc {
 public:
  void add(std::span<const std::byte> piece);

  /// The two bytes as they end the packet.
  [[nodiscard]] std::array<std::byte, 2> bytes() const;

 private:
  std::uint16_t state_{0xFFFF};
};

}  // namespace weft::wire
