#include "programs/srp/start_order.h"

#include <gtest/gtest.h>

#include <span>
#include <vector>

namespace weft::programs::srp {
namespace {

using enum StartStep;
using Steps = std::vector<StartStep>;

/// Runs until a step fails, and notes what began and what ended.
struct Start {
  Start(std::span<const StartStep> order, std::size_t steps) {
    StartSequence sequence{order, [this](StartStep step) { ended.push_back(step); }};
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

TEST(SrpStartOrder, TheTargetCoreIsThereBeforeWhateverCallsIt) {  // R-SRPT-1
  const Start run{kStartOrder, kStartOrder.size()};
  EXPECT_TRUE(run.result);
  EXPECT_EQ(run.begun, (Steps{Targets, Status, Devices}));
  EXPECT_TRUE(run.ended_by_failure.empty());
  EXPECT_EQ(run.ended, (Steps{Devices, Status, Targets}));
}

TEST(SrpStartOrder, ADeviceIsListenedAtWhenTheTargetsHaveItsNames) {  // R-SRPT-2
  const Start run{kDeviceOrder, kDeviceOrder.size()};
  EXPECT_TRUE(run.result);
  EXPECT_EQ(run.begun, (Steps{Device, Names, Portals, Management, Events}));
  EXPECT_EQ(run.ended, (Steps{Events, Management, Portals, Names, Device}));
}

TEST(SrpStartOrder, WhatHasBegunEndsInTheOtherOrderWhereAStepFails) {  // R-SRPT-1
  const Start run{kDeviceOrder, 3};
  EXPECT_FALSE(run.result);
  EXPECT_EQ(run.ended_by_failure, (Steps{Portals, Names, Device}));
  EXPECT_EQ(run.ended, run.ended_by_failure) << "once";
}

}  // namespace
}  // namespace weft::programs::srp
