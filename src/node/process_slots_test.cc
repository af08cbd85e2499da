#include "node/process_slots.h"

#include <gtest/gtest.h>

namespace weft::node {
namespace {

TEST(ProcessSlots, GivesEachProcessItsOwnAndNeverSlotZero) {
  ProcessSlots slots;
  for (std::uint32_t i = 1; i < ProcessSlots::kCount; ++i) {
    const auto slot = slots.take(Instant{});
    ASSERT_TRUE(slot);
    EXPECT_NE(*slot, 0U);
    EXPECT_TRUE(slots.is_taken(*slot));
  }
  const auto none = slots.take(Instant{});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::OutOfMemory);
}

TEST(ProcessSlots, LendABlockOnlyWhileNobodyHasAnyOfIt) {
  ProcessSlots slots;
  ASSERT_EQ(*slots.take(Instant{}), 1U);
  EXPECT_FALSE(slots.lend(1, 4, Instant{}));
  ASSERT_TRUE(slots.lend(2, 4, Instant{}));
  EXPECT_FALSE(slots.lend(5, 4, Instant{}));
  EXPECT_EQ(*slots.take(Instant{}), 6U);
  slots.take_back(2, 4, Instant{});
  EXPECT_FALSE(slots.lend(2, 4, Instant{} + Duration::seconds(1)));
  EXPECT_TRUE(slots.lend(2, 4, Instant{} + ProcessSlots::kSlotReuseDelay));
}

TEST(ProcessSlots, OfAFunctionAreItsBlock) {
  ProcessSlots slots{40, 2};
  EXPECT_EQ(*slots.take(Instant{}), 40U);
  EXPECT_EQ(*slots.take(Instant{}), 41U);
  EXPECT_FALSE(slots.take(Instant{}));
}

TEST(ProcessSlots, LetsAReleasedSlotRest) {
  ProcessSlots slots;
  for (std::uint32_t i = 1; i < ProcessSlots::kCount; ++i) {
    static_cast<void>(slots.take(Instant{}));
  }
  slots.release(7, Instant{});
  EXPECT_FALSE(slots.is_taken(7));
  EXPECT_FALSE(slots.take(Instant{} + Duration::seconds(1)));
  const auto again = slots.take(Instant{} + ProcessSlots::kSlotReuseDelay);
  ASSERT_TRUE(again);
  EXPECT_EQ(*again, 7U);
}

TEST(ProcessSlots, GoesRoundBeforeItReuses) {
  ProcessSlots slots;
  const auto first = slots.take(Instant{});
  slots.release(*first, Instant{});
  const auto second = slots.take(Instant{} + Duration::seconds(60));
  EXPECT_NE(*first, *second);
}

}  // namespace
}  // namespace weft::node
