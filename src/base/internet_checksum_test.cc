#include "base/internet_checksum.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/random.h"

namespace weft {
namespace {

/// As RFC 1071 §4.1 has it.
std::uint16_t sum_by_words(ByteSpan bytes) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto octet = std::to_integer<std::uint64_t>(bytes[i]);
    sum += i % 2 == 0 ? octet << 8 : octet;
  }
  return static_cast<std::uint16_t>(~internet_checksum(sum));
}

TEST(InternetChecksum, IsThatOfTheExample) {  // RFC 1071 §3
  const std::vector<std::byte> bytes{std::byte{0x00}, std::byte{0x01}, std::byte{0xF2},
                                     std::byte{0x03}, std::byte{0xF4}, std::byte{0xF5},
                                     std::byte{0xF6}, std::byte{0xF7}};
  EXPECT_EQ(internet_sum(bytes), 0xDDF2);
  EXPECT_EQ(internet_checksum(bytes), 0x220D);
  EXPECT_EQ(internet_checksum(ByteSpan{}), 0xFFFF);
  EXPECT_EQ(internet_checksum(ByteSpan{bytes}.subspan(1, 1)), 0xFEFF);
}

TEST(InternetChecksum, OfAnyLengthIsTheSumOfWords) {
  Random random{7};
  std::vector<std::byte> bytes(70'000);
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(random.below(4) == 0 ? 0xFF : random.below(256));
  }
  std::vector<std::size_t> lengths{1500, 2047, 65'535, 70'000};
  for (std::size_t length = 1; length != 100; ++length) {
    lengths.push_back(length);
  }
  for (const std::size_t length : lengths) {
    for (std::size_t start = 0; start != 4 && start + length <= bytes.size(); ++start) {
      const ByteSpan part = ByteSpan{bytes}.subspan(start, length);
      EXPECT_EQ(internet_sum(part), sum_by_words(part)) << length << " at " << start;
    }
  }
}

}  // namespace
}  // namespace weft
