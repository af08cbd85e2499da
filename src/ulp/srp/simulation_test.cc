// Both ends of SRP over connections that break (testing/world.h), and the bugs of planted_bug.h,
// each of which must be found.

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ulp/srp/planted_bug.h"
#include "ulp/srp/testing/world.h"

namespace weft::srp {
namespace {

using testing::Scenario;
using testing::World;

constexpr std::uint64_t kSeeds = 6;
constexpr Scenario kCalm{.moves = 200};
constexpr Scenario kBreaking{.breaks = 8, .aborts = 10, .port_changes = 3, .moves = 250};
constexpr Scenario kLying{.breaks = 2, .repeats = 20, .moves = 150};

[[nodiscard]] std::vector<std::string> run(std::uint64_t seed, const Scenario& scenario) {
  World world{seed, scenario};
  return world.run();
}

TEST(SrpSimulation, NothingIsFoundWhileConnectionsHold) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const auto findings = run(seed, kCalm);
    ASSERT_TRUE(findings.empty()) << "seed " << seed << ": " << findings.front();
  }
}

TEST(SrpSimulation, NothingIsFoundWhileConnectionsBreakAndRequestsAreAborted) {
  std::map<Outcome::Kind, std::uint64_t> outcomes;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    World world{seed, kBreaking};
    const auto findings = world.run();
    ASSERT_TRUE(findings.empty()) << "seed " << seed << ": " << findings.front();
    for (const auto& [kind, count] : world.outcomes) {
      outcomes[kind] += count;
    }
  }
  EXPECT_GT(outcomes[Outcome::Kind::Answered], 500U);
  EXPECT_GT(outcomes[Outcome::Kind::Interrupted], 25U);
  EXPECT_GT(outcomes[Outcome::Kind::Aborted], 10U);
}

TEST(SrpSimulation, ATargetThatRepeatsItsAnswersIsBelievedNothing) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const auto findings = run(seed, kLying);
    ASSERT_TRUE(findings.empty()) << "seed " << seed << ": " << findings.front();
  }
}

#ifdef WEFT_PLANTED_BUGS
class SrpPlantedBugs : public ::testing::TestWithParam<unsigned> {
 protected:
  void TearDown() override { planted_bug = PlantedBug::None; }
};

TEST_P(SrpPlantedBugs, AreFound) {
  const auto bug = static_cast<PlantedBug>(GetParam());
  const Scenario& scenario = bug == PlantedBug::LateResponseTaken ? kLying : kBreaking;
  bool found = false;
  for (std::uint64_t seed = 1; seed <= 60 && !found; ++seed) {
    World world{seed, scenario};
    planted_bug = bug;
    found = !world.run().empty();
    planted_bug = PlantedBug::None;
  }
  EXPECT_TRUE(found) << "bug " << GetParam();
}

INSTANTIATE_TEST_SUITE_P(All, SrpPlantedBugs,
                         ::testing::Range(1U, static_cast<unsigned>(kLastBug) + 1));
#endif

}  // namespace
}  // namespace weft::srp
