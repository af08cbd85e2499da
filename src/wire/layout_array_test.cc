#include "wire/layout_array.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "wire/mad/port_tables.h"

namespace weft::wire {
namespace {

TEST(LayoutArray, PacksNumbersOfFourBitsInOrder) {
  SlToVlMappingTable table;
  for (std::uint8_t sl = 0; sl < 16; ++sl) {
    table.vls[sl] = VirtualLane{static_cast<std::uint8_t>(15 - sl)};
  }
  const auto bytes = pack(table);
  EXPECT_EQ(bytes[0], std::byte{0xFE});
  EXPECT_EQ(bytes[7], std::byte{0x10});
  EXPECT_EQ(unpack<SlToVlMappingTable>(bytes), table);
}

TEST(LayoutArray, PacksStructuresOneBehindTheOther) {
  VlArbitrationTable table;
  table.entries[0] = {.vl = VirtualLane{3}, .weight = 7};
  table.entries[31] = {.vl = VirtualLane{14}, .weight = 255};
  const auto bytes = pack(table);
  EXPECT_EQ(bytes[0], std::byte{0x03});
  EXPECT_EQ(bytes[1], std::byte{7});
  EXPECT_EQ(bytes[62], std::byte{14});
  EXPECT_EQ(bytes[63], std::byte{255});
}

TEST(LayoutArray, TellsVisitorsWhichElementItIs) {
  struct Names {
    std::vector<std::string> seen;
    std::string index{"none"};
    void element(std::size_t i) { index = std::to_string(i); }
    void no_element() { index = "none"; }
    void number(std::string_view name, unsigned, std::uint64_t) {
      seen.push_back(std::string{name} + index);
    }
    void octets(std::string_view, ByteSpan) {}
  } names;
  visit(VlArbitrationTable{}, names);
  ASSERT_EQ(names.seen.size(), 64U);
  EXPECT_EQ(names.seen[0], "VL0");
  EXPECT_EQ(names.seen[63], "Weight31");
  EXPECT_EQ(names.index, "none");
}

TEST(LayoutArray, DescribesEachElementWhereItLies) {
  std::vector<std::pair<std::string, std::size_t>> fields;
  describe<PKeyTable>([&](std::string_view name, std::size_t at, std::size_t bits) {
    EXPECT_EQ(bits, 16U);
    fields.emplace_back(name, at);
  });
  ASSERT_EQ(fields.size(), 32U);
  EXPECT_EQ(fields[31], (std::pair<std::string, std::size_t>{"P_Key", 31 * 16}));
}

}  // namespace
}  // namespace weft::wire
