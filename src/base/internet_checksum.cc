#include "base/internet_checksum.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>

namespace weft {

namespace {

/// Modulo 2^64 - 1, of which 2^16 - 1 is a divisor.
[[nodiscard]] std::uint64_t add_ones_complement(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t sum = a + b;
  return sum + (sum < b ? 1 : 0);
}

}  // namespace

// The sum does not depend on the order of octets, but for the order of its own two, nor on how many
// are added at a time (RFC 1071 §2 B, C). So words of the machine's are added, several of them
// beside each other, since an addition waits for the one before, and all is folded at the end.
std::uint16_t internet_sum(ByteSpan bytes) {
  constexpr std::size_t kStep = sizeof(std::uint64_t);
  std::array<std::uint64_t, 4> sums{};
  std::size_t at = 0;
  for (; at + sums.size() * kStep <= bytes.size(); at += sums.size() * kStep) {
    std::array<std::uint64_t, 4> words{};
    std::memcpy(words.data(), bytes.data() + at, sizeof words);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      sums[i] = add_ones_complement(sums[i], words[i]);
    }
  }
  for (; at < bytes.size(); at += kStep) {
    std::uint64_t word{};
    std::memcpy(&word, bytes.data() + at, std::min(kStep, bytes.size() - at));
    sums[0] = add_ones_complement(sums[0], word);
  }
  std::uint64_t sum = 0;
  for (const std::uint64_t each : sums) {
    sum = add_ones_complement(sum, each);
  }
  while (sum > 0xFFFF) {
    sum = (sum & 0xFFFF) + (sum >> 16);
  }
  const auto folded = static_cast<std::uint16_t>(sum);
  return std::endian::native == std::endian::little ? std::byteswap(folded) : folded;
}

}  // namespace weft
