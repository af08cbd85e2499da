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

constexpr Scenario kLosing{.losses = 60, .level = 1, .moves = 200};
constexpr Scenario kLosingAndDamaging{
    .damages = 20, .losses = 40, .digests = true, .connections = 2, .level = 2, .moves = 200};
constexpr Scenario kCuttingOneOfMany{
    .cuts = 14, .patient = true, .connections = 3, .level = 2, .moves = 250};
constexpr Scenario kMany{.cuts = 8,
                         .losses = 20,
                         .aborts = 10,
                         .resets = 3,
                         .reconfigurations = 1,
                         .chap = true,
                         .connections = 3,
                         .level = 2,
                         .moves = 250};
constexpr Scenario kManyAtLevel0{
    .cuts = 8, .aborts = 10, .resets = 3, .reconfigurations = 1, .connections = 3, .moves = 250};

// More on demand: WEFT_SIM_SEEDS=1000.
[[nodiscard]] std::uint64_t seeds() {
  const char* const wanted = std::getenv("WEFT_SIM_SEEDS");
  return wanted == nullptr ? 6 : std::strtoull(wanted, nullptr, 10);
}

using Outcomes = std::map<InitiatorOutcome::Kind, std::uint64_t>;

RecoveryCounts expect_nothing(const Scenario& scenario, Outcomes& outcomes) {
  RecoveryCounts recoveries;
  for (std::uint64_t seed = 1; seed <= seeds(); ++seed) {
    World world{seed, scenario};
    const auto findings = world.run();
    EXPECT_TRUE(findings.empty()) << "seed " << seed << ": " << findings.front();
    for (const auto& [kind, count] : world.outcomes) {
      outcomes[kind] += count;
    }
    recoveries.snacks += world.recoveries().snacks;
    recoveries.commands_resent += world.recoveries().commands_resent;
    recoveries.tasks_reassigned += world.recoveries().tasks_reassigned;
  }
  return recoveries;
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

// RFC 7143 §7.1.4.1: whatever PDU is lost, the command goes on.
TEST(IscsiSimulation, AtLevel1NoCommandEndsForALostPdu) {
  Outcomes outcomes;
  const RecoveryCounts recoveries = expect_nothing(kLosing, outcomes);
  EXPECT_EQ(outcomes.size(), 1U) << "all were answered";
  EXPECT_GT(recoveries.snacks, 50U);
  EXPECT_GT(recoveries.commands_resent, 5U);
}

// A header digest that is wrong takes the connection along, and only that (RFC 7143 §7.7).
TEST(IscsiSimulation, AtLevel2NoCommandEndsForWhatIsLostOrDamaged) {
  Outcomes outcomes;
  const RecoveryCounts recoveries = expect_nothing(kLosingAndDamaging, outcomes);
  EXPECT_EQ(outcomes.size(), 1U) << "all were answered";
  EXPECT_GT(recoveries.snacks, 20U);
  EXPECT_GT(recoveries.tasks_reassigned, 5U);
}

// RFC 7143 §7.1.4.3: commands of a lost connection go on by another. A first login that is cut off
// has none yet.
TEST(IscsiSimulation, AtLevel2NoCommandEndsForALostConnection) {
  Outcomes outcomes;
  const RecoveryCounts recoveries = expect_nothing(kCuttingOneOfMany, outcomes);
  EXPECT_FALSE(outcomes.contains(InitiatorOutcome::Kind::Interrupted));
  EXPECT_FALSE(outcomes.contains(InitiatorOutcome::Kind::Aborted));
  EXPECT_GT(recoveries.commands_resent, 5U);
  EXPECT_GT(recoveries.tasks_reassigned, 20U);
}

TEST(IscsiSimulation, NothingIsFoundWithManyConnectionsThatBreak) {
  Outcomes outcomes;
  expect_nothing(kMany, outcomes);
  expect_nothing(kManyAtLevel0, outcomes);
  EXPECT_GT(outcomes[InitiatorOutcome::Kind::Answered], 1000U);
  EXPECT_GT(outcomes[InitiatorOutcome::Kind::Interrupted], 25U);
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
