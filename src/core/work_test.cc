#include "core/work.h"

#include <gtest/gtest.h>

#include "core/testing/manual_environment.h"

namespace weft::core {
namespace {

TEST(Work, RunsOnceForAllThatQueuedItWhileItWaited) {
  testing::ManualEnvironment environment;
  unsigned runs = 0;
  Work work{environment, WorkContext::WorkQueue, 2, [&] { ++runs; }};
  EXPECT_TRUE(work.queue());
  EXPECT_FALSE(work.queue());
  ASSERT_EQ(environment.posted().size(), 1U);
  EXPECT_EQ(environment.posted().front().vector, 2U);
  environment.run_all();
  EXPECT_EQ(runs, 1U);
  EXPECT_TRUE(work.queue());
  environment.run_all();
  EXPECT_EQ(runs, 2U);
}

TEST(Work, ThatIsQueuedByItselfRunsAgainAfterwardsAndNotWithin) {
  testing::ManualEnvironment environment;
  unsigned runs = 0;
  unsigned depth = 0;
  Work* self = nullptr;
  Work work{environment, WorkContext::SoftIrq, 0, [&] {
              EXPECT_EQ(depth++, 0U);
              if (++runs < 3) {
                EXPECT_TRUE(self->queue());
              }
              --depth;
            }};
  self = &work;
  work.queue();
  EXPECT_TRUE(environment.run_one());
  EXPECT_EQ(runs, 1U);
  environment.run_all();
  EXPECT_EQ(runs, 3U);
  EXPECT_TRUE(work.is_idle());
}

TEST(Work, ThatIsCancelledDoesNotRunAndCanBeQueuedAnew) {
  testing::ManualEnvironment environment;
  unsigned runs = 0;
  Work work{environment, WorkContext::WorkQueue, 0, [&] { ++runs; }};
  EXPECT_FALSE(work.cancel_and_wait());
  work.queue(Duration::seconds(5));
  EXPECT_TRUE(work.cancel_and_wait());
  environment.advance(Duration::seconds(10));
  EXPECT_EQ(runs, 0U);
  EXPECT_TRUE(work.queue());
  work.flush();
  EXPECT_EQ(runs, 1U);
}

TEST(Work, WaitsForItsTime) {
  testing::ManualEnvironment environment;
  const Instant start = environment.now();
  Instant ran;
  Work work{environment, WorkContext::WorkQueue, 0, [&] { ran = environment.now(); }};
  work.queue(Duration::milliseconds(30));
  environment.advance(Duration::milliseconds(29));
  EXPECT_EQ(ran, Instant{});
  environment.advance(Duration::milliseconds(1));
  EXPECT_EQ(ran - start, Duration::milliseconds(30));
}

TEST(SleepLock, LetsOthersGoOnUntilItIsFree) {
  testing::ManualEnvironment environment;
  SleepLock lock{environment};
  lock.lock();
  EXPECT_FALSE(lock.try_lock());
  Work releaser{environment, WorkContext::WorkQueue, 0, [&] { lock.unlock(); }};
  releaser.queue(Duration::milliseconds(1));
  lock.lock();  // sleeps until the other has run
  EXPECT_FALSE(lock.try_lock());
  lock.unlock();
}

}  // namespace
}  // namespace weft::core
