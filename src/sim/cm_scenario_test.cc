// Connections, alternate paths and lookups over a bad network, with programs and hosts that die.

#include "sim/cm_scenario.h"

#include <gtest/gtest.h>

#include "sim/testing/seeds.h"

namespace weft::sim {
namespace {

TEST(CmSimulation, BothEndsAgreeAndNothingIsLeftOverManySeeds) {
  const testing::Seeds seeds = testing::seeds_of_environment();
  std::uint64_t made = 0;
  std::uint64_t messages = 0;
  std::uint64_t paths = 0;
  std::uint64_t migrations = 0;
  std::uint64_t lookups = 0;
  for (std::uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    const CmScenario scenario = CmScenario::of_seed(seed);
    const Outcome outcome = run(scenario);
    ASSERT_TRUE(outcome.ok) << scenario.describe() << "\n" << outcome.failure;
    made += outcome.completions;
    messages += outcome.delivered;
    paths += outcome.paths;
    migrations += outcome.migrations;
    lookups += outcome.lookups;
  }
  EXPECT_GE(made, seeds.count * 4);
  EXPECT_GE(messages, made);
  EXPECT_GE(paths, seeds.count / 2);
  EXPECT_GE(migrations, seeds.count / 4);
  EXPECT_GE(lookups, seeds.count / 2);
}

TEST(CmSimulation, ReplaysASeedToTheByte) {
  for (const std::uint64_t seed : {3U, 7U, 8U}) {
    const Outcome first = run(CmScenario::of_seed(seed));
    const Outcome second = run(CmScenario::of_seed(seed));
    EXPECT_EQ(first.digest, second.digest);
    EXPECT_EQ(first.packets, second.packets);
    EXPECT_EQ(first.took, second.took);
  }
  EXPECT_NE(run(CmScenario::of_seed(3)).digest, run(CmScenario::of_seed(4)).digest);
}

}  // namespace
}  // namespace weft::sim
