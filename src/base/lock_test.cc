#include "base/lock.h"

#include <gtest/gtest.h>

#include <array>
#include <mutex>
#include <thread>

namespace weft {
namespace {

/// More threads than CPUs, so that some lose theirs while they hold the lock.
TEST(PolicyLock, LetsOneInAtATime) {
  constexpr int kThreads = 8;
  constexpr int kRounds = 20'000;
  PolicyLock lock{LockPolicy::Spin};
  int count = 0;
  {
    std::array<std::jthread, kThreads> threads;
    for (std::jthread& thread : threads) {
      thread = std::jthread{[&] {
        for (int i = 0; i < kRounds; ++i) {
          const std::lock_guard guard{lock};
          ++count;
        }
      }};
    }
  }
  EXPECT_EQ(count, kThreads * kRounds);
}

TEST(PolicyLock, IsNotTakenTwice) {
  PolicyLock lock{LockPolicy::Spin};
  lock.lock();
  EXPECT_FALSE(lock.try_lock());
  lock.unlock();
  EXPECT_TRUE(lock.try_lock());
}

}  // namespace
}  // namespace weft
