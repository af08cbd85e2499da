#include "sim/rc_scenario.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace weft::sim {
namespace {

/// WEFT_SIM_SEEDS runs more (10,000 in a long run); WEFT_SIM_SEED runs one again.
std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::stoull(text) : otherwise;
}

TEST(RcSimulation, HoldsEveryCheckOverManySeeds) {
  const std::uint64_t one = from_environment("WEFT_SIM_SEED", 0);
  const std::uint64_t first = one != 0 ? one : 1;
  const std::uint64_t count = one != 0 ? 1 : from_environment("WEFT_SIM_SEEDS", 500);
  std::uint64_t fewest_packets = ~std::uint64_t{0};
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const RcScenario scenario = RcScenario::of_seed(seed);
    const RcOutcome outcome = run(scenario);
    ASSERT_TRUE(outcome.ok) << scenario.describe() << "\n" << outcome.failure;
    fewest_packets = std::min(fewest_packets, outcome.packets);
  }
  EXPECT_GE(fewest_packets, 1000U);
}

TEST(RcSimulation, ReplaysASeedToTheByte) {
  for (const std::uint64_t seed : {3U, 9U, 19U}) {
    const RcOutcome first = run(RcScenario::of_seed(seed));
    const RcOutcome second = run(RcScenario::of_seed(seed));
    EXPECT_EQ(first.digest, second.digest);
    EXPECT_EQ(first.packets, second.packets);
  }
  EXPECT_NE(run(RcScenario::of_seed(3)).digest, run(RcScenario::of_seed(4)).digest);
}

}  // namespace
}  // namespace weft::sim
