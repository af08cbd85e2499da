#include "node/process_slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

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
  EXPECT_FALSE(slots.lend_this(0, Instant{}));
  ASSERT_TRUE(slots.lend_this(4, Instant{}));
  EXPECT_FALSE(slots.lend_this(4, Instant{}));
  for (const std::uint32_t next : {2U, 3U, 8U}) {
    EXPECT_EQ(*slots.take(Instant{}), next);
  }
  slots.take_back(4, Instant{});
  EXPECT_FALSE(slots.lend_this(4, Instant{} + Duration::seconds(1)));
  EXPECT_TRUE(slots.lend_this(4, Instant{} + ProcessSlots::kSlotReuseDelay));
}

TEST(ProcessSlots, AreLentFromTheTopAndNeverTheLast) {
  ProcessSlots slots;
  EXPECT_EQ(slots.lend(Instant{}), ProcessSlots::kCount - fabric::kSlotsPerLoan);
  std::uint32_t lent = 1;
  while (slots.lend(Instant{})) {
    ++lent;
  }
  EXPECT_EQ(lent * fabric::kSlotsPerLoan, ProcessSlots::kCount - fabric::kSlotsOfPhysical);
  for (std::uint32_t slot = 1; slot != fabric::kSlotsOfPhysical; ++slot) {
    EXPECT_EQ(*slots.take(Instant{}), slot);
  }
  EXPECT_FALSE(slots.take(Instant{}));
}

TEST(ProcessSlots, OfAFunctionAreWhatItHasBorrowed) {
  ProcessSlots slots = ProcessSlots::of_function();
  EXPECT_FALSE(slots.take(Instant{}));
  slots.borrow(400);
  slots.borrow(40);
  EXPECT_THAT(slots.borrowed(), ::testing::ElementsAre(40U, 400U));
  EXPECT_FALSE(slots.is_taken(44));
  for (const std::uint32_t slot : {40U, 41U, 42U, 43U, 400U, 401U, 402U, 403U}) {
    EXPECT_EQ(*slots.take(Instant{}), slot);
  }
  EXPECT_FALSE(slots.has_free(Instant{}));
  EXPECT_EQ(slots.count_taken(), 8U);
  for (std::uint32_t slot = 400; slot != 404; ++slot) {
    slots.release(slot, Instant{});
  }
  EXPECT_FALSE(slots.is_used(400));
  EXPECT_FALSE(slots.is_idle(400, Instant{} + Duration::seconds(1))) << "they rest";
  EXPECT_TRUE(slots.is_idle(400, Instant{} + ProcessSlots::kSlotReuseDelay));
  slots.give_back(400);
  EXPECT_THAT(slots.borrowed(), ::testing::ElementsAre(40U));
  EXPECT_FALSE(slots.take(Instant{} + ProcessSlots::kSlotReuseDelay));
  slots.release(42, Instant{});
  EXPECT_EQ(*slots.take(Instant{} + ProcessSlots::kSlotReuseDelay), 42U);
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
