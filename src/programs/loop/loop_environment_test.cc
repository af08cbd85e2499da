#include "programs/loop/loop_environment.h"

#include <gtest/gtest.h>

#include <asio/post.hpp>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/work.h"

namespace weft::programs {
namespace {

using core::WorkContext;

class LoopEnvironmentTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::unique_ptr<core::Work> work(std::function<void()> function) {
    return std::make_unique<core::Work>(environment, WorkContext::WorkQueue, 0,
                                        std::move(function));
  }
  bool wait(const std::function<bool()>& condition, Duration span = Duration::seconds(20)) {
    return environment.wait_until(condition, environment.now() + span);
  }

  asio::io_context loop;
  LoopEnvironment environment{loop, [](core::LogLevel, std::string_view) {}};
};

TEST_F(LoopEnvironmentTest, RunsTasksInItsOwnThreadWhoeverPostsThem) {
  std::atomic<bool> ran{false};
  std::thread::id where;
  const auto task = work([&] {
    where = std::this_thread::get_id();
    ran = true;
  });
  std::thread poster{[&] { task->queue(); }};
  poster.join();
  EXPECT_FALSE(ran);
  EXPECT_TRUE(wait([&] { return ran && task->is_idle(); }));
  EXPECT_EQ(where, std::this_thread::get_id());
}

TEST_F(LoopEnvironmentTest, RunsTasksInTheOrderOfTheirTimes) {
  std::vector<int> order;
  const auto late = work([&] { order.push_back(3); });
  const auto early = work([&] { order.push_back(2); });
  const auto now = work([&] { order.push_back(1); });
  late->queue(Duration::milliseconds(20));
  early->queue(Duration::milliseconds(5));
  now->queue();
  EXPECT_TRUE(wait([&] { return order.size() == 3 && late->is_idle(); }));
  EXPECT_EQ(order, (std::vector{1, 2, 3}));
}

TEST_F(LoopEnvironmentTest, WhatIsTakenBackDoesNotRun) {
  bool ran = false;
  const auto soon = work([&] { ran = true; });
  const auto later = work([&] { ran = true; });
  soon->queue();
  later->queue(Duration::milliseconds(5));
  EXPECT_TRUE(soon->cancel_and_wait());
  EXPECT_TRUE(later->cancel_and_wait());
  EXPECT_FALSE(wait([&] { return ran; }, Duration::milliseconds(30)));
}

TEST_F(LoopEnvironmentTest, TheLoopGoesOnAfterIt) {
  bool ran = false;
  {
    LoopEnvironment other{loop, [](core::LogLevel, std::string_view) {}};
    core::Work soon{other, WorkContext::WorkQueue, 0, [&] { ran = true; }};
    core::Work later{other, WorkContext::WorkQueue, 0, [&] { ran = true; }};
    soon.queue();
    later.queue(Duration::milliseconds(1));
    EXPECT_TRUE(soon.cancel_and_wait());
    EXPECT_TRUE(later.cancel_and_wait());
  }
  EXPECT_FALSE(wait([&] { return ran; }, Duration::milliseconds(30)));
}

TEST_F(LoopEnvironmentTest, ATaskThatWaitsLetsTheOthersGoOn) {
  bool second = false;
  bool seen = false;
  const auto other = work([&] { second = true; });
  const auto first = work([&] {
    other->queue();
    seen = wait([&] { return second; });
  });
  first->queue();
  EXPECT_TRUE(wait([&] { return first->is_idle() && other->is_idle(); }));
  EXPECT_TRUE(seen);
}

TEST_F(LoopEnvironmentTest, AWaitEndsAtItsDeadline) {
  EXPECT_FALSE(wait([] { return false; }, Duration::milliseconds(10)));
}

TEST_F(LoopEnvironmentTest, AnotherThreadWaitsForWhatTheLoopDoes) {
  std::atomic<bool> done{false};
  std::atomic<bool> seen{false};
  const auto task = work([&] { done = true; });
  std::thread waiter{[&] {
    seen = wait([&] { return done.load(); });
    environment.notify();
  }};
  task->queue();
  EXPECT_TRUE(wait([&] { return seen.load() && task->is_idle(); }));
  waiter.join();
}

TEST_F(LoopEnvironmentTest, ALoopThatIsToldToEndDoesSoAfterAWait) {
  bool waited = false;
  asio::post(loop, [&] {
    loop.stop();
    waited = !wait([] { return false; }, Duration::milliseconds(5));
  });
  const auto guard = asio::make_work_guard(loop);
  loop.run();
  EXPECT_TRUE(waited);
}

}  // namespace
}  // namespace weft::programs
