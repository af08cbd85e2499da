#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/flags.h"

namespace weft::verbs {

/// Fields of a received packet that select its work queue (enum ibv_rx_hash_fields has the same
/// bits). A QP has those of one version of IP, and of one of TCP and UDP.
enum class HashField : std::uint32_t {
  SourceIpv4 = 1U << 0,
  DestinationIpv4 = 1U << 1,
  SourceIpv6 = 1U << 2,
  DestinationIpv6 = 1U << 3,
  SourcePortTcp = 1U << 4,
  DestinationPortTcp = 1U << 5,
  SourcePortUdp = 1U << 6,
  DestinationPortUdp = 1U << 7,
};
using HashFields = Flags<HashField>;
inline constexpr HashFields kAllHashFields = HashFields::from_bits(0xFF);

/// Bytes of a Toeplitz key: two IPv6 addresses and two ports take 36, and the window has four.
inline constexpr std::size_t kReceiveHashKeyBytes = 40;

/// How a QP spreads what it receives over an indirection table: Toeplitz, of these fields.
struct ReceiveHash {
  HashFields fields{};
  std::array<std::byte, kReceiveHashKeyBytes> key{};
  bool operator==(const ReceiveHash&) const = default;
};

/// True if a QP may have these fields together.
[[nodiscard]] constexpr bool go_together(HashFields fields) {
  constexpr std::uint32_t kIpv4 = 0x03;
  constexpr std::uint32_t kIpv6 = 0x0C;
  constexpr std::uint32_t kTcp = 0x30;
  constexpr std::uint32_t kUdp = 0xC0;
  const std::uint32_t bits = fields.bits();
  return (bits & ~kAllHashFields.bits()) == 0 && ((bits & kIpv4) == 0 || (bits & kIpv6) == 0) &&
         ((bits & kTcp) == 0 || (bits & kUdp) == 0);
}

}  // namespace weft::verbs
