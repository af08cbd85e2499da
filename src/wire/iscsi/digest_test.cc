#include "wire/iscsi/digest.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

namespace weft::wire::iscsi {
namespace {

using Octets4 = std::array<std::uint8_t, 4>;

[[nodiscard]] Octets4 digest_of(const std::vector<std::uint8_t>& octets) {
  Digest digest;
  for (std::size_t half : {std::size_t{0}, octets.size() / 2}) {
    const std::size_t end = half == 0 ? octets.size() / 2 : octets.size();
    digest.add(std::as_bytes(std::span{octets}.subspan(half, end - half)));
  }
  Octets4 result{};
  for (std::size_t i = 0; i < result.size(); ++i) {
    result[i] = std::to_integer<std::uint8_t>(digest.bytes()[i]);
  }
  return result;
}

TEST(IscsiDigest, IsTheOneOfTheRfcsExamples) {  // RFC 7143 appendix A, "CRC Examples"
  std::vector<std::uint8_t> rising(32);
  std::vector<std::uint8_t> falling(32);
  for (std::uint8_t i = 0; i < 32; ++i) {
    rising[i] = i;
    falling[i] = static_cast<std::uint8_t>(31 - i);
  }
  EXPECT_EQ(digest_of(std::vector<std::uint8_t>(32, 0)), (Octets4{0xAA, 0x36, 0x91, 0x8A}));
  EXPECT_EQ(digest_of(std::vector<std::uint8_t>(32, 0xFF)), (Octets4{0x43, 0xAB, 0xA8, 0x62}));
  EXPECT_EQ(digest_of(rising), (Octets4{0x4E, 0x79, 0xDD, 0x46}));
  EXPECT_EQ(digest_of(falling), (Octets4{0x5C, 0xDB, 0x3F, 0x11}));
  EXPECT_EQ(digest_of({0x01, 0xC0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,    0, 0, 0, 0,
                       0x14, 0,    0, 0, 0, 0, 4, 0, 0, 0, 0, 0x14, 0, 0, 0, 0x18,
                       0x28, 0,    0, 0, 0, 0, 0, 0, 2, 0, 0, 0,    0, 0, 0, 0}),
            (Octets4{0x56, 0x3A, 0x96, 0xD9}));
}

TEST(IscsiDigest, OfNothingIsThatOfNoPiece) {
  Digest digest;
  digest.add({});
  EXPECT_EQ(digest.bytes(), Digest{}.bytes());
}

}  // namespace
}  // namespace weft::wire::iscsi
