// Both ends of iSCSI over streams that break (testing/world.h), and the bugs of planted_bug.h, each
// of which must be found.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "iscsi/planted_bug.h"
#include "iscsi/testing/world.h"

namespace weft::iscsi {
namespace {

using testing::Scenario;
using testing::World;

constexpr Scenario kCalm{.moves = 200};
constexpr Scenario kSecret{.digests = true, .chap = true, .moves = 60};
constexpr Scenario kBreaking{
    .cuts = 8, .aborts = 10, .resets = 3, .reconfigurations = 1, .chap = true, .moves = 250};
constexpr Scenario kDamaging{.damages = 25, .digests = true, .moves = 200};

// More on demand: WEFT_SIM_SEEDS=1000.
[[nodiscard]] std::uint64_t seeds() {
  const char* const wanted = std::getenv("WEFT_SIM_SEEDS");
  return wanted == nullptr ? 6 : std::strtoull(wanted, nullptr, 10);
}

using Outcomes = std::map<InitiatorOutcome::Kind, std::uint64_t>;

void expect_nothing(const Scenario& scenario, Outcomes& outcomes) {
  for (std::uint64_t seed = 1; seed <= seeds(); ++seed) {
    World world{seed, scenario};
    const auto findings = world.run();
    ASSERT_TRUE(findings.empty()) << "seed " << seed << ": " << findings.front();
    for (const auto& [kind, count] : world.outcomes) {
      outcomes[kind] += count;
    }
  }
}

TEST(IscsiSimulation, NothingIsFoundWhileConnectionsHold) {
  Outcomes outcomes;
  expect_nothing(kCalm, outcomes);
  EXPECT_EQ(outcomes.size(), 1U);
  EXPECT_GT(outcomes[InitiatorOutcome::Kind::Answered], 1000U);
}

TEST(IscsiSimulation, NothingIsFoundWithChapBothWaysAndDigests) {
  Outcomes outcomes;
  expect_nothing(kSecret, outcomes);
}

TEST(IscsiSimulation, NothingIsFoundWhileConnectionsBreakAndCommandsAreAborted) {
  Outcomes outcomes;
  expect_nothing(kBreaking, outcomes);
  EXPECT_GT(outcomes[InitiatorOutcome::Kind::Answered], 500U);
  EXPECT_GT(outcomes[InitiatorOutcome::Kind::Interrupted], 25U);
  EXPECT_GT(outcomes[InitiatorOutcome::Kind::Aborted], 10U);
}

TEST(IscsiSimulation, DigestsFindWhatIsDamaged) {
  Outcomes outcomes;
  expect_nothing(kDamaging, outcomes);
  EXPECT_GT(outcomes[InitiatorOutcome::Kind::Interrupted], 10U);
}

#ifdef WEFT_PLANTED_BUGS
class IscsiPlantedBugs : public ::testing::TestWithParam<unsigned> {
 protected:
  void TearDown() override { planted_bug = PlantedBug::None; }
};

TEST_P(IscsiPlantedBugs, AreFound) {
  const auto bug = static_cast<PlantedBug>(GetParam());
  const Scenario& scenario = bug == PlantedBug::DigestIgnored            ? kDamaging
                             : bug == PlantedBug::InterruptedTakenAsDone ? kBreaking
                                                                         : kCalm;
  bool found = false;
  for (std::uint64_t seed = 1; seed <= 40 && !found; ++seed) {
    World world{seed, scenario};
    planted_bug = bug;
    found = !world.run().empty();
    planted_bug = PlantedBug::None;
  }
  EXPECT_TRUE(found) << "bug " << GetParam();
}

INSTANTIATE_TEST_SUITE_P(All, IscsiPlantedBugs,
                         ::testing::Range(1U, static_cast<unsigned>(kLastBug) + 1));
#endif

}  // namespace
}  // namespace weft::iscsi
