#include "ring/doorbell_bitmap.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <set>
#include <thread>
#include <vector>

namespace weft::ring {
namespace {

std::set<std::uint32_t> take_all(DoorbellBitmap& board) {
  std::set<std::uint32_t> taken;
  board.take([&](std::uint32_t number) { EXPECT_TRUE(taken.insert(number).second); });
  return taken;
}

TEST(DoorbellBitmap, HandsOutEachNumberOnce) {
  DoorbellBitmap board;
  EXPECT_TRUE(board.is_quiet());
  for (const std::uint32_t number : {0U, 63U, 64U, 1'000U, 4'095U, 64U}) {
    board.add(number);
  }
  EXPECT_FALSE(board.is_quiet());
  EXPECT_TRUE(board.has(1'000));
  board.remove(1'000);
  EXPECT_FALSE(board.has(1'000));
  std::set<std::uint32_t> seen;
  board.for_each([&](std::uint32_t number) { seen.insert(number); });
  EXPECT_EQ(seen, (std::set<std::uint32_t>{0, 63, 64, 4'095}));
  EXPECT_EQ(take_all(board), seen);
  EXPECT_TRUE(board.is_quiet());
  EXPECT_TRUE(take_all(board).empty());
}

/// Memory may contain numbers written by a hostile process.
TEST(DoorbellBitmap, LeavesOutNumbersThatDoNotExist) {
  DoorbellBitmap board;
  board.add(DoorbellBitmap::kDoorbells);
  board.add(0xFFFF'FFFF);
  board.remove(DoorbellBitmap::kDoorbells);
  EXPECT_FALSE(board.has(DoorbellBitmap::kDoorbells));
  EXPECT_TRUE(board.is_quiet());
}

/// A number added during a take() is visited by this one or the next.
TEST(DoorbellBitmap, LosesNothingBetweenThreads) {
  constexpr std::uint32_t kRounds = 20'000;
  DoorbellBitmap board;
  std::vector<std::atomic<std::uint32_t>> added(3);
  std::vector<std::thread> ringers;
  for (std::uint32_t i = 0; i < added.size(); ++i) {
    ringers.emplace_back([&, i] {
      for (std::uint32_t round = 0; round < kRounds; ++round) {
        added[i].fetch_add(1);
        board.add(i * 100);
      }
    });
  }
  std::vector<std::uint32_t> known(added.size());
  std::uint64_t looks = 0;
  while (known != std::vector<std::uint32_t>(added.size(), kRounds)) {
    board.take([&](std::uint32_t number) { known[number / 100] = added[number / 100].load(); });
    ASSERT_LT(++looks, 1'000'000'000U);
  }
  for (std::thread& ringer : ringers) {
    ringer.join();
  }
  take_all(board);
  EXPECT_TRUE(board.is_quiet());
}

}  // namespace
}  // namespace weft::ring
