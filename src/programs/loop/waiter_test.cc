#include "programs/loop/waiter.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "os/clock.h"

namespace weft::programs {
namespace {

constexpr Duration kLongest = Duration::seconds(20);  // policy: on a busy machine
constexpr Duration kSoon = Duration::milliseconds(5);

TEST(Waiter, WhoWasWokenBeforeDoesNotWait) {
  Waiter waiter;
  waiter.wake();
  EXPECT_TRUE(waiter.wait_for(Duration{}));
}

TEST(Waiter, SaysThatItsTimeIsOverAndMayWaitAgain) {
  Waiter waiter;
  const Instant start = os::now();
  EXPECT_FALSE(waiter.wait_for(kSoon));
  EXPECT_GE(os::now() - start, kSoon);
  EXPECT_FALSE(waiter.wait_for(Duration{}));
  waiter.wake();
  EXPECT_TRUE(waiter.wait_for(kLongest));
}

// One that is not heard is found when the time is over.
TEST(Waiter, EveryWakeIsHeard) {
  constexpr int kRounds = 20'000;
  std::atomic<Waiter*> next{nullptr};
  std::atomic<bool> ends{false};
  std::thread waker{[&] {
    while (!ends) {
      if (Waiter* const waiter = next.exchange(nullptr)) {
        waiter->wake();
      } else {
        std::this_thread::yield();
      }
    }
  }};
  int heard = 0;
  for (bool is_heard = true; is_heard && heard < kRounds; heard += is_heard ? 1 : 0) {
    const auto waiter = std::make_unique<Waiter>();
    const Instant start = os::now();
    next = waiter.get();
    is_heard = waiter->wait_for(kLongest) && os::now() - start < kLongest;
  }
  ends = true;
  waker.join();
  EXPECT_EQ(heard, kRounds);
}

}  // namespace
}  // namespace weft::programs
