#include "programs/srp/start_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace weft::programs::srp {
namespace {

using enum StartStep;
using Steps = std::vector<StartStep>;

/// Runs until a step fails, and notes what began and what ended.
struct Start {
  explicit Start(std::size_t steps) {
    StartSequence sequence{[this](StartStep step) { ended.push_back(step); }};
    result = sequence
                 .begin([&](StartStep step) -> Result<void> {
                   if (begun.size() == steps) {
                     return fail(ErrorCode::Io, "told to");
                   }
                   begun.push_back(step);
                   return {};
                 })
                 .has_value();
    ended_by_failure = ended;
  }

  Steps begun;
  Steps ended;
  Steps ended_by_failure;
  bool result{};
};

[[nodiscard]] std::ptrdiff_t place_of(StartStep step) {
  return std::ranges::find(kStartOrder, step) - kStartOrder.begin();
}

TEST(SrpStartOrder, TheTargetCoreIsThereBeforeWhateverCallsIt) {  // R-SRPT-1
  const Start run{kStartOrder.size()};
  EXPECT_TRUE(run.result);
  EXPECT_EQ(run.begun, (Steps{Device, Targets, Portals, Management, Events, Status}));
  EXPECT_LT(place_of(Targets), place_of(Portals));
  EXPECT_LT(place_of(Portals), place_of(Management));
  EXPECT_TRUE(run.ended_by_failure.empty());
  EXPECT_EQ(run.ended, (Steps{Status, Events, Management, Portals, Targets, Device}));
}

TEST(SrpStartOrder, WhatHasBegunEndsInTheOtherOrderWhereAStepFails) {  // R-SRPT-1
  const Start run{3};
  EXPECT_FALSE(run.result);
  EXPECT_EQ(run.ended_by_failure, (Steps{Portals, Targets, Device}));
  EXPECT_EQ(run.ended, run.ended_by_failure) << "once";
}

}  // namespace
}  // namespace weft::programs::srp
