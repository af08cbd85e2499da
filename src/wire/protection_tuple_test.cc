#include "wire/protection_tuple.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace weft::wire {
namespace {

ByteSpan text(std::string_view characters) {
  return std::as_bytes(std::span{characters.data(), characters.size()});
}

// T-MR-4: known content.
TEST(ProtectionTuples, CrcHasTheValuesOfTheStandard) {  // SBC-3 §4.22.4.3, Table 27
  EXPECT_EQ(crc_t10_dif(std::vector<std::byte>(32)), 0x0000);
  EXPECT_EQ(crc_t10_dif(std::vector<std::byte>(32, std::byte{0xFF})), 0xA293);
  std::vector<std::byte> counting(32);
  for (unsigned i = 0; i < counting.size(); ++i) {
    counting[i] = static_cast<std::byte>(i);
  }
  EXPECT_EQ(crc_t10_dif(counting), 0x0224);
  EXPECT_EQ(crc_t10_dif(text("123456789")), 0xD0DB);  // the catalogue's check value
  EXPECT_EQ(crc_t10_dif(text("6789"), crc_t10_dif(text("12345"))), 0xD0DB);
  EXPECT_EQ(crc_t10_dif({}, 0x1234), 0x1234);
}

// ISA-L takes another way for each length of its input: all against bit by bit.
TEST(ProtectionTuples, CrcIsTheRemainderOfThePolynomialAtEachLength) {
  std::vector<std::byte> data;
  unsigned remainder = 0;
  for (unsigned i = 0; i < 600; ++i) {
    EXPECT_EQ(crc_t10_dif(data), remainder) << data.size();
    const unsigned octet = i * 37 & 0xFF;
    data.push_back(static_cast<std::byte>(octet));
    remainder ^= octet << 8;
    for (int bit = 0; bit < 8; ++bit) {
      remainder =
          ((remainder & 0x8000U) != 0 ? remainder << 1 ^ 0x8BB7U : remainder << 1) & 0xFFFFU;
    }
  }
}

TEST(ProtectionTuples, IpChecksumIsThatOfRfc1071) {
  const std::vector<std::byte> data{std::byte{0x00}, std::byte{0x01}, std::byte{0xF2},
                                    std::byte{0x03}, std::byte{0xF4}, std::byte{0xF5},
                                    std::byte{0xF6}, std::byte{0xF7}};
  EXPECT_EQ(ip_checksum(data), static_cast<std::uint16_t>(~0xDDF2U & 0xFFFFU));  // RFC 1071 §3
}

}  // namespace
}  // namespace weft::wire
