// Headers octet for octet.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "wire/iser/header.h"
#include "wire/iser/private_data.h"

namespace weft::wire::iser {
namespace {

template <class T, std::size_t kBytes>
void expect_octets(const T& value, const std::array<std::uint8_t, kBytes>& octets) {
  static_assert(kBytes == kSizeOf<T>);
  const std::span<const std::byte, kBytes> wire{std::as_bytes(std::span{octets})};
  const auto packed = pack(value);
  EXPECT_TRUE(std::ranges::equal(packed, wire)) << T::kName;
  EXPECT_EQ(unpack<T>(wire), value);
}

TEST(IserHeader, HasItsFieldsInPlace) {
  expect_octets(
      ControlHeader{.has_write_stag = true,
                    .has_read_stag = true,
                    .write_stag = 0x0102'0304,
                    .write_base_offset = 0x1112'1314'1516'1718,
                    .read_stag = 0x2122'2324,
                    .read_base_offset = 0x3132'3334'3536'3738},
      std::array<std::uint8_t, 28>{0x1C, 0,    0,    0,    0x01, 0x02, 0x03, 0x04, 0x11, 0x12,
                                   0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x21, 0x22, 0x23, 0x24,
                                   0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38});
  EXPECT_EQ(std::to_integer<int>(pack(ControlHeader{.has_write_stag = true})[0]), 0x18);
  EXPECT_EQ(std::to_integer<int>(pack(ControlHeader{.has_read_stag = true})[0]), 0x14);
  EXPECT_EQ(kAllHeaderBytes, 76U);
}

TEST(IserHello, HasItsFieldsInPlace) {
  expect_octets(Hello{.max_version = 11, .min_version = 10, .ird = 0x0123},
                std::array<std::uint8_t, 28>{0x20, 0xBA, 0x01, 0x23});
  expect_octets(HelloReply{.ord = 0x0456}, std::array<std::uint8_t, 28>{0x30, 0xAA, 0x04, 0x56});
  expect_octets(HelloReply{.rejected = true}, std::array<std::uint8_t, 28>{0x31, 0xAA});
}

TEST(IserPrivateData, FlagsSayWhatAnEndLacks) {
  expect_octets(PrivateData{}, std::array<std::uint8_t, 4>{0x80});
  expect_octets(PrivateData{.lacks_remote_invalidation = true}, std::array<std::uint8_t, 4>{0xC0});
}

}  // namespace
}  // namespace weft::wire::iser
