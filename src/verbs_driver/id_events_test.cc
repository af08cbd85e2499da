#include "verbs_driver/id_events.h"

#include <gtest/gtest.h>

#include <memory>
#include <string_view>

#include "verbs_driver/threaded_environment.h"

namespace weft::verbs_driver {
namespace {

/// With handlers of RDMA-CM in rdma_cm_test.cc.
class IdEventsTest : public ::testing::Test {
 protected:
  bool await(const std::function<bool()>& condition) {
    return environment_.wait_until(condition, environment_.now() + Duration::seconds(20));
  }

  ThreadedEnvironment environment_{[](core::LogLevel, std::string_view) {}};
  std::atomic<int> told_{};
};

TEST_F(IdEventsTest, WhatWaitsForARequestIsFreedWhenThatEnds) {
  const auto held = std::make_shared<int>();
  IdEvents events{environment_, true};
  events.add([this, held] { ++told_; });
  EXPECT_EQ(held.use_count(), 2);
  EXPECT_TRUE(events.is_idle());
  events.end();
  EXPECT_EQ(held.use_count(), 1);
  events.add([this] { ++told_; });
  EXPECT_TRUE(events.is_idle());
  EXPECT_EQ(told_, 0);
}

TEST_F(IdEventsTest, AreBusyUntilWhatEndedThemHasReturned) {
  const auto events = std::make_shared<IdEvents>(environment_, false);
  std::atomic<bool> was_busy{};
  events->add([&] {
    events->end();  // by itself: it waits for nobody
    was_busy = !events->is_idle();
    ++told_;
  });
  events->add([this] { ++told_; });
  EXPECT_TRUE(await([&] { return told_ == 1 && events->is_idle(); }));
  EXPECT_TRUE(was_busy);
  EXPECT_EQ(told_, 1);
}

}  // namespace
}  // namespace weft::verbs_driver
