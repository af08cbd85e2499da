#include <gtest/gtest.h>

#include "cm/planted_bug.h"
#include "hca/planted_bug.h"
#include "sim/cm_scenario.h"
#include "sim/rc_scenario.h"
#include "sim/unreliable_scenario.h"

namespace weft::sim {
namespace {

using hca::PlantedBug;
using hca::QpType;

constexpr std::uint64_t kSeeds = 60;
constexpr QpType kTypes[] = {QpType::Rc, QpType::Uc, QpType::Ud};

Outcome run_seed(QpType type, std::uint64_t seed) {
  if (type != QpType::Rc) {
    return run(UnreliableScenario::of_seed(type, seed));
  }
  RcScenario scenario = RcScenario::of_seed(seed);
  if (hca::planted_bug >= hca::kFirstPlacementBug && hca::planted_bug < hca::kFirstUcBug) {
    scenario.places = true;
    scenario.max_message_bytes = 4'096;
    scenario.shares_pages = hca::planted_bug >= hca::kFirstPlacedAtomicBug;
  }
  return run(scenario);
}

QpType type_of(PlantedBug bug) {
  return bug >= hca::kFirstUdBug ? QpType::Ud : bug >= hca::kFirstUcBug ? QpType::Uc : QpType::Rc;
}

class Planted : public ::testing::TestWithParam<int> {
 protected:
  void TearDown() override { hca::planted_bug = PlantedBug::None; }
};

TEST_P(Planted, IsFoundBySimulation) {
  hca::planted_bug = static_cast<PlantedBug>(GetParam());
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Outcome outcome = run_seed(type_of(hca::planted_bug), seed);
    if (!outcome.ok) {
      RecordProperty("found", outcome.failure);
      return;
    }
  }
  FAIL() << "no check noticed it in " << kSeeds << " seeds";
}

INSTANTIATE_TEST_SUITE_P(Bugs, Planted, ::testing::Range(1, static_cast<int>(hca::kLastBug) + 1));

class PlantedInCm : public ::testing::TestWithParam<int> {
 protected:
  void TearDown() override { cm::planted_bug = cm::PlantedBug::None; }
};

TEST_P(PlantedInCm, IsFoundBySimulation) {
  cm::planted_bug = static_cast<cm::PlantedBug>(GetParam());
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Outcome outcome = run(CmScenario::of_seed(seed));
    if (!outcome.ok) {
      RecordProperty("found", outcome.failure);
      return;
    }
  }
  FAIL() << "no check noticed it in " << kSeeds << " seeds";
}

INSTANTIATE_TEST_SUITE_P(Bugs, PlantedInCm,
                         ::testing::Range(1, static_cast<int>(cm::kLastBug) + 1));

TEST(Unplanted, NothingIsFoundWhenNothingIsPlanted) {
  for (const QpType type : kTypes) {
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      const Outcome outcome = run_seed(type, seed);
      ASSERT_TRUE(outcome.ok) << outcome.failure;
    }
  }
}

}  // namespace
}  // namespace weft::sim
