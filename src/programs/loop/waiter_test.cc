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

TEST(Waiter, EveryWakeIsHeard) {
  constexpr int kRounds = 20'000;
  std::atomic<Waiter*> next{nullptr};
  std::thread waker{[&next] {
    for (int round = 0; round < kRounds; ++round) {
      Waiter* waiter = nullptr;
      while ((waiter = next.exchange(nullptr)) == nullptr) {
        std::this_thread::yield();
      }
      waiter->wake();
    }
  }};
  int woken = 0;
  for (int round = 0; round < kRounds; ++round) {
    const auto waiter = std::make_unique<Waiter>();
    next = waiter.get();
    woken += waiter->wait_for(kLongest) ? 1 : 0;
  }
  waker.join();
  EXPECT_EQ(woken, kRounds);
}

}  // namespace
}  // namespace weft::programs
