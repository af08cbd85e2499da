#include "ulp/rsocket/io_map.h"

#include <gtest/gtest.h>

namespace weft::rsockets {
namespace {

IoMap::Mapping remote(std::uint64_t address, std::uint32_t index) {
  return {.offset = address,
          .address = address,
          .key = 1,
          .length = 64,
          .index = index,
          .is_told = false};
}

TEST(IoMap, HasAsManyEntriesAsTheOtherEndSays) {
  IoMap map;
  EXPECT_FALSE(map.free_index());
  map.set_entries(2);
  for (std::uint32_t i = 0; i < 2; ++i) {
    ASSERT_EQ(map.free_index(), i);
    map.add(remote(i * 64, i));
  }
  EXPECT_FALSE(map.free_index());
  EXPECT_TRUE(map.remove(0, 64));
  EXPECT_EQ(map.free_index(), 0U);
}

TEST(IoMap, RemovesOnlyWhatIsMappedWhole) {
  IoMap map;
  map.set_entries(1);
  map.add(remote(64, 0));
  EXPECT_FALSE(map.remove(64, 32));
  EXPECT_FALSE(map.remove(0, 64));
  EXPECT_TRUE(map.remove(64, 64));
  EXPECT_FALSE(map.remove(64, 64));
}

TEST(IoMap, TellsOfEachMappingOnceInTheirOrderAndOfLocalOnesNever) {
  IoMap map;
  map.set_entries(2);
  map.add({.offset = 0, .address = 0, .key = 1, .length = 8, .index = {}, .is_told = false});
  EXPECT_FALSE(map.has_untold());
  map.add(remote(64, 0));
  map.add(remote(128, 1));
  EXPECT_EQ(map.tell_next().address, 64U);
  EXPECT_TRUE(map.has_untold());
  EXPECT_EQ(map.tell_next().index, 1U);
  EXPECT_FALSE(map.has_untold());
}

}  // namespace
}  // namespace weft::rsockets
