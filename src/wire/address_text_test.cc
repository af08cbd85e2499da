#include "wire/address_text.h"

#include <gtest/gtest.h>

#include <initializer_list>

namespace weft::wire {
namespace {

std::string text_of(std::initializer_list<unsigned> groups) {
  std::array<std::byte, 16> address{};
  std::size_t at = 0;
  for (const unsigned group : groups) {
    address[at++] = static_cast<std::byte>(group >> 8);
    address[at++] = static_cast<std::byte>(group);
  }
  return address_text(std::span<const std::byte, 16>{address});
}

TEST(AddressText, ShortensTheLongestRunOfZeroGroups) {  // RFC 5952 §4.2
  EXPECT_EQ(text_of({0, 0, 0, 0, 0, 0, 0, 0}), "::");
  EXPECT_EQ(text_of({0, 0, 0, 0, 0, 0, 0, 1}), "::1");
  EXPECT_EQ(text_of({0xFE80, 0, 0, 0, 0, 0, 0, 0}), "fe80::");
  EXPECT_EQ(text_of({0xFE80, 0, 0, 0, 0xAB, 0xCD, 0, 1}), "fe80::ab:cd:0:1");
  EXPECT_EQ(text_of({1, 0, 0, 2, 0, 0, 0, 3}), "1:0:0:2::3");
  EXPECT_EQ(text_of({1, 0, 0, 2, 0, 0, 3, 4}), "1::2:0:0:3:4");     // of two alike, the first
  EXPECT_EQ(text_of({1, 0, 2, 3, 4, 5, 6, 7}), "1:0:2:3:4:5:6:7");  // a single one stays
}

TEST(AddressText, WritesIpv4WithDots) {
  constexpr std::array kAddress = {std::byte{192}, std::byte{0}, std::byte{2}, std::byte{255}};
  EXPECT_EQ(address_text(std::span<const std::byte, 4>{kAddress}), "192.0.2.255");
}

TEST(HexText, HasTwoDigitsAByte) {
  constexpr std::array kBytes = {std::byte{0x0A}, std::byte{0xFF}};
  EXPECT_EQ(hex_text(kBytes), "0aff");
  EXPECT_EQ(hex_text(kBytes, ":"), "0a:ff");
  EXPECT_EQ(hex_text({}, ":"), "");
}

}  // namespace
}  // namespace weft::wire
