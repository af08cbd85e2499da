#include "base/inplace_vector.h"

#include <gtest/gtest.h>

#include <span>
#include <vector>

namespace weft {
namespace {

TEST(InplaceVectorTest, HasWhatWasAddedSinceItWasCleared) {
  InplaceVector<int, 3> values;
  EXPECT_TRUE(values.empty());
  values.push_back(1);
  values.clear();
  values.push_back(2);
  values.push_back(3);
  const std::span<const int> shown = values;
  EXPECT_EQ((std::vector<int>{shown.begin(), shown.end()}), (std::vector<int>{2, 3}));
  EXPECT_EQ(values.size(), 2U);
  EXPECT_EQ(values.front(), 2);
}

TEST(InplaceVectorDeathTest, TakesNoMoreThanThereIsRoomFor) {
  InplaceVector<int, 1> values;
  values.push_back(1);
  EXPECT_DEATH(values.push_back(2), "how many there can be");
  EXPECT_DEATH(static_cast<void>(values[1]), "one of the values");
}

}  // namespace
}  // namespace weft
