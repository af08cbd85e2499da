#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace weft::wire {

/// Invariant CRC (IBTA vol 1 §7.8.1; RoCE v2: annex A17 §17.3.3), the CRC-32 of Ethernet, computed
/// over pieces in order. The caller passes headers with their variant fields replaced by ones
/// (`masked_*` in packet.h).
class Icrc {
 public:
  void add(std::span<const std::byte> piece);

  /// The four bytes in wire order; they follow the pad.
  [[nodiscard]] std::array<std::byte, 4> bytes() const;

 private:
  std::uint32_t state_{0};  // in ISA-L's form, which complements at both ends
};

/// Variant CRC (IBTA vol 1 §7.8.2), a CRC-16 with polynomial 0x100B over the whole packet,
/// recomputed on each link.
class Vcrc {
 public:
  void add(std::span<const std::byte> piece);

  /// The two bytes in wire order, at the end of the packet.
  [[nodiscard]] std::array<std::byte, 2> bytes() const;

 private:
  std::uint16_t state_{0xFFFF};
};

}  // namespace weft::wire
