// Two ports with many functions each, SA, and a network between them that loses, delays and
// repeats MADs, in virtual time. Functions ask SA, join groups, connect, resolve services, are
// killed, and move to the other port; SA restarts and falls silent. All functions use the same
// transaction and communication IDs. Each MAD carries, unseen by the ports, whom it is meant for.
//
// What must hold: a MAD reaches whom it is meant for and nobody else; none that is meant for a
// function that is there is dropped; no communication ID stands for two connections; SA is asked
// for the union, and in the end it has the union and the GUIDs of the functions that are there.
// The bugs of planted_bug.h are each found.
//
// WEFT_SIM_SEEDS runs more seeds, WEFT_SIM_SEED one again.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "sriov/planted_bug.h"
#include "sriov/testing/world.h"

namespace weft::sriov {
namespace {

using testing::Scenario;
using testing::World;

const std::array<Scenario, 3> kScenarios{
    {
     {.functions = 4, .loss = 0, .has_failures = false, .moves = 150},
     {.functions = 4, .loss = 8, .has_failures = true, .moves = 250},
     {.functions = 3, .loss = 2, .has_failures = true, .moves = 250},
     }
};

std::vector<std::string> run_one(std::uint64_t seed, const Scenario& scenario) {
  std::vector<std::string> findings = World{seed, scenario}.run();
  for (std::string& finding : findings) {
    finding = "seed " + std::to_string(seed) + " with loss " + std::to_string(scenario.loss) +
              ": " + finding;
  }
  return findings;
}

struct Seeds {
  std::uint64_t first{1};
  std::uint64_t count{8};
};
Seeds seeds() {
  if (const char* one = std::getenv("WEFT_SIM_SEED"); one != nullptr) {
    return {.first = std::stoull(one), .count = 1};
  }
  const char* count = std::getenv("WEFT_SIM_SEEDS");
  return {.first = 1, .count = count != nullptr ? std::stoull(count) : 8};
}

// R-SRI-4, R-SRI-6, R-SRI-7, R-SRI-8
TEST(SriovSimulation, EveryMadReachesWhomItIsMeantFor) {
  const Seeds range = seeds();
  for (std::uint64_t seed = range.first; seed < range.first + range.count; ++seed) {
    for (const Scenario& scenario : kScenarios) {
      for (const std::string& finding : run_one(seed, scenario)) {
        ADD_FAILURE() << finding;
      }
    }
  }
}

/// Back at the first port, the function's IDs are still in time-wait there.
TEST(SriovSimulation, AFunctionThatMovesAwayAndBackMayLoseItsConnections) {
  for (const std::string& finding : run_one(114, kScenarios[1])) {
    ADD_FAILURE() << finding;
  }
}

/// A function answers a REQ whose sender has given up, and uses the number for a REQ of its own.
TEST(SriovSimulation, ARequestAfterAnAnswerThatWasGivenUp) {
  for (const std::uint64_t seed : {206U, 543U}) {
    for (const std::string& finding : run_one(seed, kScenarios[1])) {
      ADD_FAILURE() << finding;
    }
  }
}

TEST(SriovSimulation, SixtyFourFunctionsShareAPort) {
  const Scenario scenario{.functions = 64, .loss = 5, .has_failures = true, .moves = 600};
  for (const std::string& finding : run_one(1, scenario)) {
    ADD_FAILURE() << finding;
  }
}

#ifdef WEFT_PLANTED_BUGS
class SriovPlantedBug : public ::testing::TestWithParam<PlantedBug> {
 protected:
  void TearDown() override { planted_bug = PlantedBug::None; }
};

TEST_P(SriovPlantedBug, IsFound) {
  planted_bug = GetParam();
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    for (const Scenario& scenario : kScenarios) {
      if (!run_one(seed, scenario).empty()) {
        return;
      }
    }
  }
  FAIL() << "no seed finds it";
}

std::vector<PlantedBug> all_bugs() {
  std::vector<PlantedBug> bugs;
  for (auto bug = 1U; bug <= static_cast<unsigned>(kLastBug); ++bug) {
    bugs.push_back(static_cast<PlantedBug>(bug));
  }
  return bugs;
}

INSTANTIATE_TEST_SUITE_P(Each, SriovPlantedBug, ::testing::ValuesIn(all_bugs()));
#endif

}  // namespace
}  // namespace weft::sriov
