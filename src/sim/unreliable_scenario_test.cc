#include "sim/unreliable_scenario.h"

#include <gtest/gtest.h>

#include "sim/testing/seeds.h"

namespace weft::sim {
namespace {

using hca::QpType;

class UnreliableSimulation : public ::testing::TestWithParam<QpType> {};

INSTANTIATE_TEST_SUITE_P(Types, UnreliableSimulation, ::testing::Values(QpType::Uc, QpType::Ud),
                         [](const auto& type) { return type.param == QpType::Uc ? "Uc" : "Ud"; });

TEST_P(UnreliableSimulation, HoldsEveryCheckOverManySeeds) {
  const testing::Seeds seeds = testing::seeds_of_environment();
  for (std::uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    const UnreliableScenario scenario = UnreliableScenario::of_seed(GetParam(), seed);
    const Outcome outcome = run(scenario);
    ASSERT_TRUE(outcome.ok) << scenario.describe() << "\n" << outcome.failure;
    // What a run is worth: some arrive everywhere, most where the network keeps order.
    EXPECT_GE(outcome.delivered, scenario.keeps_order ? 150U : 30U) << scenario.describe();
  }
}

TEST_P(UnreliableSimulation, ReplaysASeedToTheByte) {
  for (const std::uint64_t seed : {3U, 4U, 5U}) {
    const UnreliableScenario scenario = UnreliableScenario::of_seed(GetParam(), seed);
    EXPECT_EQ(run(scenario).digest, run(scenario).digest);
  }
  EXPECT_NE(run(UnreliableScenario::of_seed(GetParam(), 3)).digest,
            run(UnreliableScenario::of_seed(GetParam(), 4)).digest);
}

}  // namespace
}  // namespace weft::sim
