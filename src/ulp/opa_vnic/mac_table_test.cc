#include "ulp/opa_vnic/mac_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weft::opa_vnic {
namespace {

using wire::MacAddress;
using wire::MacTableEntry;

constexpr std::uint64_t kWhole = 0xFFFF'FFFF'FFFF;

MacTableEntry entry_of(std::uint64_t mac, std::uint32_t dlid, std::uint64_t mask = kWhole,
                       std::uint8_t side_data = 0) {
  return {.mac = MacAddress::from_number(mac),
          .mask = MacAddress::from_number(mask),
          .dlid = dlid,
          .side_data = side_data};
}

std::optional<std::uint32_t> find(const MacTable& table, std::uint64_t mac) {
  return table.find_destination(MacAddress::from_number(mac));
}

TEST(OpaMacTableStore, ReplacesABlockAndKeepsTheRest) {
  const MacTable empty;
  EXPECT_EQ(empty.digest(), 0U);
  const auto first =
      empty
          .with_block({
              .offset = 0, .digest = 1, .entries = {entry_of(0x11, 1), entry_of(0x22, 2)}
  })
          .value();
  const auto second =
      first->with_block({.offset = 1, .digest = 9, .entries = {entry_of(0x33, 3)}}).value();
  EXPECT_EQ(find(*second, 0x11), 1U);
  EXPECT_EQ(find(*second, 0x22), std::nullopt);
  EXPECT_EQ(find(*second, 0x33), 3U);
  EXPECT_EQ(second->digest(), 9U);
  EXPECT_EQ(find(*first, 0x22), 2U);  // who holds the old table still reads the old table
  const auto third =
      second->with_block({.offset = 0, .digest = 9, .entries = {MacTableEntry{}}}).value();
  EXPECT_EQ(find(*third, 0x11), std::nullopt);
  EXPECT_EQ(third->size(), 1U);
}

TEST(OpaMacTableStore, ReadsBackWhatIsThereAndZerosWhereNothingIs) {
  const auto table =
      MacTable{
  }
          .with_block({.offset = 2046, .digest = 5, .entries = {{}, entry_of(0x77, 7)}})
          .value();
  const auto block = table->block(2045, 3);
  EXPECT_EQ(block.digest, 5U);
  EXPECT_THAT(block.entries,
              ::testing::ElementsAre(MacTableEntry{}, MacTableEntry{}, entry_of(0x77, 7)));
}

TEST(OpaMacTableStore, MatchesByMaskWhereNoAddressIsTheSame) {
  const auto table =
      MacTable{
  }
          .with_block(
              {.offset = 0,
               .digest = 1,
               .entries = {entry_of(0x0011'2200'0000, 1, 0xFFFF'FF00'0000),
                           entry_of(0x0011'2233'0000, 2, 0xFFFF'FFFF'0000),
                           entry_of(0x0011'2233'4455, 3), entry_of(0x0011'2233'4466, 4, 0)}})
          .value();
  EXPECT_EQ(find(*table, 0x0011'2233'4455), 3U);
  EXPECT_EQ(find(*table, 0x0011'2233'4466), 4U);  // a mask of zero: the whole address
  EXPECT_EQ(find(*table, 0x0011'2233'0001), 2U);
  EXPECT_EQ(find(*table, 0x0011'22FF'0001), 1U);
  EXPECT_EQ(find(*table, 0x0011'3300'0000), std::nullopt);
}

TEST(OpaMacTableStore, SourcesAreNoDestinations) {
  const auto source = MacTableEntry::kSourceMac;
  const auto table =
      MacTable{}
          .with_block({.offset = 0, .digest = 1, .entries = {entry_of(0x11, 0, kWhole, source)}})
          .value();
  EXPECT_EQ(find(*table, 0x11), std::nullopt);
  EXPECT_FALSE(table->refuses_source(MacAddress::from_number(0x11)));
  EXPECT_TRUE(table->refuses_source(MacAddress::from_number(0x12)));
  EXPECT_FALSE(MacTable{}.refuses_source(MacAddress::from_number(0x12)));
}

TEST(OpaMacTableStore, RefusesMoreSourcesThanItSays) {
  std::shared_ptr<const MacTable> table = std::make_shared<MacTable>();
  const auto add = [&](std::size_t at, std::size_t count) {
    wire::MacTableBlock block{.offset = static_cast<std::uint16_t>(at), .digest = 1, .entries = {}};
    for (std::size_t i = 0; i < count; ++i) {
      block.entries.push_back(entry_of(at + i + 1, 0, kWhole, MacTableEntry::kSourceMac));
    }
    return table->with_block(block);
  };
  for (const std::size_t at : {0U, 125U}) {
    table = add(at, 125).value();
  }
  table = add(250, 6).value();
  EXPECT_EQ(table->size(), 256U);
  EXPECT_EQ(add(256, 1).error().code, ErrorCode::OutOfMemory);
}

}  // namespace
}  // namespace weft::opa_vnic
