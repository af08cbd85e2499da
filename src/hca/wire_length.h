#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "hca/packet.h"

namespace weft::hca {

/// What a packet or train with `payload_bytes` of payload adds to PortXmitData: the sum of its
/// packets' lengths in 4-byte words, from LRH to ICRC (IBTA vol 1 §7.7.8, §16.1.3.5).
[[nodiscard]] std::uint64_t packet_length_words(const PacketHeader& header,
                                                std::size_t payload_bytes);

namespace internal {
extern const std::array<std::uint8_t, 256> kSingleWords;
}

/// The same for one packet without a GRH.
[[nodiscard]] inline std::uint64_t single_length_words(wire::Opcode opcode,
                                                       std::size_t payload_bytes) {
  return internal::kSingleWords[static_cast<std::uint8_t>(opcode)] + (payload_bytes + 3) / 4;
}

}  // namespace weft::hca
