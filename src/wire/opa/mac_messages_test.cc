#include "wire/opa/mac_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "base/random.h"
#include "wire/address_text.h"

namespace weft::wire {
namespace {

using ::testing::HasSubstr;

MacTableEntry entry_of(std::uint64_t number) {
  return {.mac = MacAddress::from_number(number),
          .mask = MacAddress::from_number(0xFFFF'FFFF'FFFF),
          .dlid = static_cast<std::uint32_t>(number & 0xFF'FFFF),
          .side_data = 0};
}

TEST(OpaMacTable, LiesAsTheTablesSay) {
  const MacTableBlock block{
      .offset = 0x0102, .digest = 0xA1B2C3D4, .entries = {entry_of(0x0011'2233'4455)}};
  EXPECT_EQ(hex_text(to_data(block)),
            "01020001a1b2c3d4"
            "001122334455ffffffffffff33445500");
}

TEST(OpaMacTable, RoundTripsUpToTheLargestBlock) {
  for (const std::size_t count : {0U, 1U, 124U, 125U}) {
    MacTableBlock block{.offset = 1923, .digest = 7, .entries = {}};
    for (std::size_t i = 0; i < count; ++i) {
      block.entries.push_back(entry_of(i + 1));
    }
    const auto data = to_data(block);
    EXPECT_LE(data.size(), kVemaDataBytes);
    EXPECT_EQ(parse_mac_table(data).value(), block);
  }
}

TEST(OpaMacTable, BlocksLieInTheTable) {  // R-VN-6
  EXPECT_TRUE(is_valid_block({.offset = 0, .entries = 125}));
  EXPECT_TRUE(is_valid_block({.offset = 1923, .entries = 125}));
  EXPECT_TRUE(is_valid_block({.offset = 2048, .entries = 0}));
  EXPECT_FALSE(is_valid_block({.offset = 0, .entries = 126}));
  EXPECT_FALSE(is_valid_block({.offset = 1924, .entries = 125}));
  EXPECT_FALSE(is_valid_block({.offset = 0xFFFF, .entries = 1}));
}

TEST(OpaMacTable, ThatIsCutOffOrTooLargeIsRefused) {
  const auto data = to_data(MacTableBlock{.offset = 0, .digest = 0, .entries = {entry_of(1)}});
  for (std::size_t bytes = 0; bytes < data.size(); ++bytes) {
    EXPECT_FALSE(parse_mac_table(ByteSpan{data}.first(bytes))) << bytes;
  }
  auto many = data;
  many.resize(kVemaDataBytes);
  many[3] = std::byte{126};
  EXPECT_THAT(parse_mac_table(many).error().reason, HasSubstr("126 entries at 0"));
}

TEST(OpaMacList, LiesAsTheTablesSayAndRoundTrips) {
  MacList list{
      .start = 2,
      .total = 0x0304,
      .generation = 0xFFFE,
      .macs = {MacAddress::from_number(0x0011'2233'4455),
               MacAddress::from_number(0x3333'0000'0001)}
  };
  const auto data = to_data(list);
  EXPECT_EQ(hex_text(data), "000200020304fffe001122334455333300000001");
  EXPECT_EQ(parse_mac_list(data).value(), list);
  for (std::size_t bytes = 0; bytes < data.size(); ++bytes) {
    EXPECT_FALSE(parse_mac_list(ByteSpan{data}.first(bytes))) << bytes;
  }
}

TEST(OpaMacList, OfTheMostAddressesFillsAMessage) {
  const MacList list{.start = 0,
                     .total = 400,
                     .generation = 1,
                     .macs = std::vector<MacAddress>(kMaxMacsInMessage)};
  EXPECT_EQ(kMaxMacsInMessage, 333U);
  EXPECT_LE(to_data(list).size(), kVemaDataBytes);
}

TEST(MacAddress, KnowsItsKinds) {
  EXPECT_TRUE(MacAddress::from_number(0xFFFF'FFFF'FFFF).is_broadcast());
  EXPECT_TRUE(MacAddress::from_number(0xFFFF'FFFF'FFFF).is_multicast());
  EXPECT_TRUE(MacAddress::from_number(0x0100'5E00'0001).is_multicast());
  EXPECT_FALSE(MacAddress::from_number(0x0011'7501'0203).is_multicast());
  EXPECT_TRUE(MacAddress::from_number(0x0200'0000'0001).is_locally_administered());
  EXPECT_FALSE(MacAddress::from_number(0x0011'7501'0203).is_locally_administered());
  EXPECT_EQ(MacAddress::from_number(0x0011'7501'0203).number(), 0x0011'7501'0203U);
}

}  // namespace
}  // namespace weft::wire
