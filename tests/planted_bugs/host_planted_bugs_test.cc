// Each mistake planted in lanes, threads and sleeps breaks what its scenario demands, and without
// it the scenario passes, however busy the machine is.

#include <gtest/gtest.h>

#include <string>

#include "live_scenarios.h"
#include "live_switch.h"
#include "os/clock.h"

namespace weft {
namespace {

constexpr Duration kLong = Duration::seconds(60);  // policy: only a program that hangs takes it
constexpr Duration kShort = Duration::milliseconds(1'500);   // with the mistake it does
constexpr Duration kLongestSearch = Duration::seconds(120);  // on a machine that hides the moment

class HostPlanted : public ::testing::TestWithParam<LiveScenario> {};

TEST_P(HostPlanted, IsFound) {
  const Planting planting{GetParam().bug, GetParam().taken_away};
  const Instant start = os::now();
  bool is_found = false;
  while (!is_found && os::now() - start < kLongestSearch) {
    is_found = !GetParam().run(kShort);
  }
  EXPECT_TRUE(is_found) << "nothing noticed it";
}

TEST_P(HostPlanted, PassesWithoutIt) {
  const Planting planting{LiveBug::None, GetParam().taken_away};
  EXPECT_TRUE(GetParam().run(kLong));
}

INSTANTIATE_TEST_SUITE_P(Bugs, HostPlanted,
                         ::testing::ValuesIn(live_scenarios().begin(), live_scenarios().end()),
                         [](const auto& scenario) { return std::string{scenario.param.name}; });

}  // namespace
}  // namespace weft
