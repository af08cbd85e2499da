#include <gtest/gtest.h>

#include "hca/planted_bug.h"
#include "sim/rc_scenario.h"

namespace weft::sim {
namespace {

constexpr std::uint64_t kSeeds = 60;

class Planted : public ::testing::TestWithParam<int> {
 protected:
  void TearDown() override { hca::planted_bug = hca::PlantedBug::None; }
};

TEST_P(Planted, IsFoundBySimulation) {
  hca::planted_bug = static_cast<hca::PlantedBug>(GetParam());
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const RcOutcome outcome = run(RcScenario::of_seed(seed));
    if (!outcome.ok) {
      RecordProperty("found", outcome.failure);
      return;
    }
  }
  FAIL() << "no check noticed it in " << kSeeds << " seeds";
}

INSTANTIATE_TEST_SUITE_P(Bugs, Planted, ::testing::Range(1, hca::kPlantedBugCount + 1));

TEST(Unplanted, NothingIsFoundWhenNothingIsPlanted) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const RcOutcome outcome = run(RcScenario::of_seed(seed));
    ASSERT_TRUE(outcome.ok) << outcome.failure;
  }
}

}  // namespace
}  // namespace weft::sim
