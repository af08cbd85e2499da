#include "station/distinct_list.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace weft::station {
namespace {

TEST(DistinctList, KeepsEachObjectOnceInTheOrderOfTheirFirst) {
  std::array<int, 3> objects{};
  DistinctList<int, 8> list;
  for (const std::size_t index : {1U, 1U, 0U, 1U, 2U, 0U, 2U, 2U}) {
    list.add(objects[index]);
  }
  std::vector<const int*> found;
  list.for_each([&](int& object) { found.push_back(&object); });
  EXPECT_EQ(found, (std::vector<const int*>{&objects[1], objects.data(), &objects[2]}));
}

TEST(DistinctList, HoldsAsManyAsABatch) {
  std::array<int, 4> objects{};
  DistinctList<int, 4> list;
  for (int& object : objects) {
    list.add(object);
  }
  std::size_t count = 0;
  list.for_each([&](int&) { ++count; });
  EXPECT_EQ(count, objects.size());
}

}  // namespace
}  // namespace weft::station
