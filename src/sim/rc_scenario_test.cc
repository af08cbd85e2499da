#include "sim/rc_scenario.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "sim/testing/seeds.h"

namespace weft::sim {
namespace {

TEST(RcSimulation, HoldsEveryCheckOverManySeeds) {
  const testing::Seeds seeds = testing::seeds_of_environment();
  std::uint64_t fewest_packets = ~std::uint64_t{0};
  for (std::uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    const RcScenario scenario = RcScenario::of_seed(seed);
    const Outcome outcome = run(scenario);
    ASSERT_TRUE(outcome.ok) << scenario.describe() << "\n" << outcome.failure;
    fewest_packets = std::min(fewest_packets, outcome.packets);
  }
  EXPECT_GE(fewest_packets, 1000U);
}

TEST(RcSimulation, HoldsEveryCheckOverXrc) {
  const testing::Seeds seeds = testing::seeds_of_environment();
  for (std::uint64_t seed = seeds.first; seed < seeds.first + seeds.count; seed += 3) {
    RcScenario scenario = RcScenario::of_seed(seed);
    scenario.over_xrc = true;
    const Outcome outcome = run(scenario);
    ASSERT_TRUE(outcome.ok) << scenario.describe() << "\n" << outcome.failure;
  }
}

/// Direct placement, of longer messages so that most could be placed.
TEST(RcSimulation, HoldsEveryCheckWithDirectPlacement) {
  const testing::Seeds seeds = testing::seeds_of_environment();
  std::uint64_t placed = 0;
  for (std::uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    RcScenario scenario = RcScenario::of_seed(seed);
    scenario.places = true;
    scenario.max_message_bytes = 4'096;
    const Outcome outcome = run(scenario);
    ASSERT_TRUE(outcome.ok) << scenario.describe() << "\n" << outcome.failure;
    placed += outcome.placed;
  }
  EXPECT_GT(placed, seeds.count * 3);
}

/// In pages that both ends map, atomics as well, and some that must be refused.
TEST(RcSimulation, HoldsEveryCheckInSharedPages) {
  const testing::Seeds seeds = testing::seeds_of_environment();
  std::uint64_t atomics = 0;
  for (std::uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    RcScenario scenario = RcScenario::of_seed(seed);
    scenario.places = scenario.shares_pages = true;
    const Outcome outcome = run(scenario);
    ASSERT_TRUE(outcome.ok) << scenario.describe() << "\n" << outcome.failure;
    atomics += outcome.placed_atomics;
  }
  EXPECT_NE(atomics, 0U);
}

/// Automatic path migration (IBTA vol 1 §17.2.8), of RC and over XRC in turn.
TEST(RcSimulation, HoldsEveryCheckWhenANetworkDies) {
  const testing::Seeds seeds = testing::seeds_of_environment();
  std::uint64_t completions = 0;
  for (std::uint64_t seed = seeds.first; seed < seeds.first + seeds.count; seed += 2) {
    RcScenario scenario = RcScenario::of_seed(seed);
    scenario.over_xrc = seed % 4 < 2;
    scenario.partition = {};
    scenario.a_process_dies = false;
    scenario.a_network_dies = true;
    const Outcome outcome = run(scenario);
    ASSERT_TRUE(outcome.ok) << scenario.describe() << "\n" << outcome.failure;
    completions += outcome.completions;
  }
  EXPECT_NE(completions, 0U);
}

TEST(RcSimulation, ReplaysASeedToTheByte) {
  for (const std::uint64_t seed : {3U, 9U, 19U}) {
    const Outcome first = run(RcScenario::of_seed(seed));
    const Outcome second = run(RcScenario::of_seed(seed));
    EXPECT_EQ(first.digest, second.digest);
    EXPECT_EQ(first.packets, second.packets);
  }
  EXPECT_NE(run(RcScenario::of_seed(3)).digest, run(RcScenario::of_seed(4)).digest);
}

}  // namespace
}  // namespace weft::sim
