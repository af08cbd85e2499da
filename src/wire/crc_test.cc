#include "wire/crc.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/bytes.h"

namespace weft::wire {
namespace {

constexpr std::string_view kDigits = "123456789";

ByteSpan digits() { return std::as_bytes(std::span{kDigits}); }

TEST(Icrc, IsTheCrc32OfEthernetLowByteFirst) {  // check value 0xCBF43926
  Icrc icrc;
  icrc.add(digits());
  EXPECT_EQ(icrc.bytes(),
            (std::array{std::byte{0x26}, std::byte{0x39}, std::byte{0xF4}, std::byte{0xCB}}));
}

TEST(Icrc, HasTheKnownStateBehindTheEightOnesOfRoce) {  // register 0xDEBB20E3, here complemented
  std::array<std::byte, 8> ones{};
  ones.fill(std::byte{0xFF});
  Icrc icrc;
  icrc.add(ones);
  EXPECT_EQ(icrc.bytes(),
            (std::array{std::byte{0x1C}, std::byte{0xDF}, std::byte{0x44}, std::byte{0x21}}));
}

TEST(Icrc, IsTheSameHoweverTheBytesAreCut) {
  Icrc whole;
  whole.add(digits());
  for (std::size_t cut = 0; cut <= kDigits.size(); ++cut) {
    Icrc pieces;
    pieces.add(digits().first(cut));
    pieces.add({});
    pieces.add(digits().subspan(cut));
    EXPECT_EQ(pieces.bytes(), whole.bytes()) << cut;
  }
}

/// Bit by bit, as the polynomial x^16 + x^12 + x^3 + x + 1 is written.
std::array<std::byte, 2> slow_vcrc(ByteSpan bytes) {
  unsigned state = 0xFFFF;
  for (const std::byte octet : bytes) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      const unsigned in = std::to_integer<unsigned>(octet) >> bit & 1;
      const unsigned out = state >> 15;
      state = (state << 1 & 0xFFFF) ^ (in != out ? 0x100BU : 0);
    }
  }
  std::array<std::byte, 2> sent{};
  for (unsigned bit = 0; bit < 16; ++bit) {  // the highest power first, low bit of each byte first
    if ((~state >> (15 - bit) & 1) != 0) {
      sent[bit / 8] |= static_cast<std::byte>(1U << bit % 8);
    }
  }
  return sent;
}

TEST(Vcrc, EqualsTheDivisionByItsPolynomial) {
  for (std::size_t length = 0; length <= kDigits.size(); ++length) {
    Vcrc vcrc;
    vcrc.add(digits().first(length));
    EXPECT_EQ(vcrc.bytes(), slow_vcrc(digits().first(length))) << length;
  }
}

}  // namespace
}  // namespace weft::wire
