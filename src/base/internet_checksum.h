#pragma once

// The checksum of IP, ICMP, UDP and TCP (RFC 1071). Pure functions.

#include <cstdint>

#include "base/bytes.h"

namespace weft {

/// The ones' complement sum of the big-endian 16-bit words, in 0 to 0xFFFF; an odd last octet is
/// the upper half of a word. Sums of parts add up, where all parts but the last have even lengths.
[[nodiscard]] std::uint16_t internet_sum(ByteSpan bytes);

/// What a header has in its checksum field, from the sum of everything else; 0 if that and a
/// checksum that is right are summed.
[[nodiscard]] constexpr std::uint16_t internet_checksum(std::uint64_t sum) {
  while (sum > 0xFFFF) {
    sum = (sum & 0xFFFF) + (sum >> 16);
  }
  return static_cast<std::uint16_t>(~sum);
}
[[nodiscard]] inline std::uint16_t internet_checksum(ByteSpan bytes) {
  return internet_checksum(std::uint64_t{internet_sum(bytes)});
}

}  // namespace weft
