#include "verbs_driver/arena.h"

#include <gtest/gtest.h>

#include <bit>

namespace weft::verbs_driver {
namespace {

constexpr std::size_t kPage = Arena::kAlignment;

TEST(Arena, GivesPiecesThatDoNotOverlapAndFillsGapsAgain) {
  auto arena = Arena::reserve(4 * kPage);
  ASSERT_TRUE(arena);
  const auto a = arena->allocate(kPage);
  const auto b = arena->allocate(1);
  const auto c = arena->allocate(2 * kPage);
  ASSERT_TRUE(a && b && c);
  EXPECT_EQ(b->data(), a->data() + kPage);
  EXPECT_EQ(c->data(), b->data() + kPage);
  EXPECT_FALSE(arena->allocate(1)) << "it is full";
  arena->free(*b);
  EXPECT_FALSE(arena->allocate(kPage + 1)) << "the gap has a page";
  const auto again = arena->allocate(kPage);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->data(), b->data());
  EXPECT_EQ(arena->taken_bytes(), 4 * kPage);
}

TEST(Arena, ZeroesWhatItGivesAgain) {
  auto arena = Arena::reserve(kPage);
  ASSERT_TRUE(arena);
  const auto first = arena->allocate(8);
  ASSERT_TRUE(first);
  first->front() = std::byte{7};
  arena->free(*first);
  const auto second = arena->allocate(8);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->front(), std::byte{});
}

TEST(Arena, ContainsItsOwnBytesAndNoneBeyond) {
  const auto arena = Arena::reserve(kPage);
  ASSERT_TRUE(arena);
  const auto begin = std::bit_cast<std::uint64_t>(arena->all().data());
  EXPECT_TRUE(arena->contains(begin, kPage));
  EXPECT_TRUE(arena->contains(begin + kPage - 1, 1));
  EXPECT_FALSE(arena->contains(begin + 1, kPage));
  EXPECT_FALSE(arena->contains(begin - 1, 1));
  EXPECT_FALSE(arena->contains(begin, ~std::uint64_t{0}));
}

}  // namespace
}  // namespace weft::verbs_driver
