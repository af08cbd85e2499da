// RDMA-CM above the connection managers: resolution and connection over lossy cables.

#include "sim/rdma_cm_scenario.h"

#include <gtest/gtest.h>

#include "sim/testing/seeds.h"

namespace weft::sim {
namespace {

/// Fewer seeds, because each brings up a fabric.
constexpr std::uint64_t kSeedsOfOne = 5;

TEST(RdmaCmSimulation, BothEndsAgreeAndNothingIsLeftOverManySeeds) {
  const testing::Seeds seeds = testing::seeds_of_environment();
  std::uint64_t made = 0;
  std::uint64_t lookups = 0;
  for (std::uint64_t seed = seeds.first; seed < seeds.first + seeds.count; seed += kSeedsOfOne) {
    const RdmaCmScenario scenario = RdmaCmScenario::of_seed(seed);
    const Outcome outcome = run(scenario);
    ASSERT_TRUE(outcome.ok) << scenario.describe() << "\n" << outcome.failure;
    made += outcome.completions;
    lookups += outcome.lookups;
  }
  EXPECT_GE(made, seeds.count / kSeedsOfOne);
  EXPECT_GE(lookups, seeds.count / kSeedsOfOne / 2);
}

TEST(RdmaCmSimulation, ReplaysASeedToTheEvent) {
  EXPECT_EQ(run(RdmaCmScenario::of_seed(3)).digest, run(RdmaCmScenario::of_seed(3)).digest);
  EXPECT_NE(run(RdmaCmScenario::of_seed(3)).digest, run(RdmaCmScenario::of_seed(4)).digest);
}

}  // namespace
}  // namespace weft::sim
