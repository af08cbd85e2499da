#include "os/hold_point.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace weft::os {
namespace {

TEST(HoldPointTest, HoldsAThreadThatComesThereUntilItIsReleased) {
  HoldPoint point;
  std::atomic<bool> stops{};
  std::atomic<int> rounds{};
  std::thread thread{[&] {
    while (!stops.load()) {
      point.pass();
      rounds.fetch_add(1);
    }
  }};
  for (int turn = 0; turn < 100; ++turn) {
    const int before = rounds.load();
    while (rounds.load() == before) {
      std::this_thread::yield();
    }
    EXPECT_FALSE(point.is_held());
    point.request();
    while (!point.is_held()) {
      std::this_thread::yield();
    }
    const int held = rounds.load();
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    EXPECT_EQ(rounds.load(), held);
    point.release();
  }
  stops = true;
  thread.join();
}

TEST(HoldPointTest, HoldsNobodyAfterItsReleaseWhoeverComesLate) {
  HoldPoint point;
  point.request();
  EXPECT_FALSE(point.is_held());
  point.release();
  point.pass();  // stays not
  EXPECT_FALSE(point.is_held());
}

}  // namespace
}  // namespace weft::os
