#include "base/internet_checksum.h"

#include <bit>
#include <cstddef>
#include <cstring>

namespace weft {

// The sum does not depend on the order of octets, but for the order of its own two (RFC 1071 §2 B),
// so words of the machine's are added, four octets at a time, and carries are folded at the end.
std::uint16_t internet_sum(ByteSpan bytes) {
  constexpr std::size_t kStep = sizeof(std::uint32_t);
  std::uint64_t sum = 0;
  std::size_t at = 0;
  for (; at + kStep <= bytes.size(); at += kStep) {
    std::uint32_t word{};
    std::memcpy(&word, bytes.data() + at, kStep);
    sum += word;
  }
  if (at != bytes.size()) {
    std::uint32_t word = 0;
    std::memcpy(&word, bytes.data() + at, bytes.size() - at);
    sum += word;
  }
  while (sum > 0xFFFF) {
    sum = (sum & 0xFFFF) + (sum >> 16);
  }
  const auto folded = static_cast<std::uint16_t>(sum);
  return std::endian::native == std::endian::little ? std::byteswap(folded) : folded;
}

}  // namespace weft
