// Work queues and timers.

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/timer.h>
#include <linux/workqueue.h>

namespace {

constexpr unsigned kSoon = 20;           // ms, policy
constexpr unsigned long kLong = 20'000;  // ms, policy

struct Job {
  work_struct work{};
  std::atomic<int> begun{};
  std::atomic<int> ended{};
  completion may_end{};
  workqueue_struct* again{};

  Job() {
    INIT_WORK(&work, run);
    init_completion(&may_end);
  }
  static void run(work_struct* work) {
    Job& job = *container_of(work, Job, work);
    ++job.begun;
    wait_for_completion(&job.may_end);
    if (job.again != nullptr) {
      queue_work(job.again, work);
    }
    ++job.ended;
  }
  void wait_until_begun(int times) const {
    while (begun < times) {
      msleep(1);
    }
  }
};

class KenvWorkQueue : public ::testing::Test {
 protected:
  ~KenvWorkQueue() override { destroy_workqueue(queue_); }
  workqueue_struct* const queue_ = alloc_workqueue("test", WQ_UNBOUND, 0);
};

TEST_F(KenvWorkQueue, AWorkThatIsPendingIsNotQueuedAgainAndOneThatRunsIs) {
  Job job;
  EXPECT_TRUE(queue_work(queue_, &job.work));
  job.wait_until_begun(1);
  EXPECT_FALSE(work_pending(&job.work)) << "it runs";
  EXPECT_TRUE(queue_work(queue_, &job.work));
  EXPECT_FALSE(queue_work(queue_, &job.work));
  msleep(kSoon);
  EXPECT_EQ(job.begun, 1) << "never beside itself";
  complete_all(&job.may_end);
  flush_work(&job.work);  // whether it has to wait depends on who is quicker
  EXPECT_EQ(job.ended, 2);
  EXPECT_FALSE(flush_work(&job.work)) << "there is nothing to wait for";
}

TEST_F(KenvWorkQueue, FlushWaitsForWhatWasQueuedBefore) {
  std::vector<Job> jobs(8);
  for (Job& job : jobs) {
    queue_work(queue_, &job.work);
    complete_all(&job.may_end);
  }
  flush_workqueue(queue_);
  for (Job& job : jobs) {
    EXPECT_EQ(job.ended, 1);
  }
}

TEST_F(KenvWorkQueue, CancelTakesAPendingWorkOutAndWaitsForOneThatRuns) {
  workqueue_struct* const ordered = alloc_ordered_workqueue("ordered", 0);
  Job first;
  Job second;
  queue_work(ordered, &first.work);
  queue_work(ordered, &second.work);
  first.wait_until_begun(1);
  EXPECT_TRUE(cancel_work_sync(&second.work));
  std::atomic<bool> is_cancelled{};
  std::thread canceller{[&] {
    EXPECT_FALSE(cancel_work_sync(&first.work)) << "it was not pending any more";
    is_cancelled = true;
  }};
  msleep(kSoon);
  EXPECT_FALSE(is_cancelled);
  complete_all(&first.may_end);
  canceller.join();
  EXPECT_EQ(first.ended, 1);
  EXPECT_EQ(second.begun, 0);
  destroy_workqueue(ordered);
}

TEST_F(KenvWorkQueue, CancelEndsAWorkThatQueuesItselfAgain) {
  Job job;
  job.again = queue_;
  complete_all(&job.may_end);
  queue_work(queue_, &job.work);
  job.wait_until_begun(3);
  cancel_work_sync(&job.work);
  const int begun = job.begun;
  msleep(kSoon);
  EXPECT_EQ(job.begun, begun);
  EXPECT_EQ(job.ended, begun);
}

TEST_F(KenvWorkQueue, AnOrderedQueueRunsOneWorkAfterTheOther) {
  workqueue_struct* const ordered = alloc_ordered_workqueue("ordered", 0);
  Job first;
  Job second;
  queue_work(ordered, &first.work);
  queue_work(ordered, &second.work);
  first.wait_until_begun(1);
  msleep(kSoon);
  EXPECT_EQ(second.begun, 0);
  complete_all(&first.may_end);
  complete_all(&second.may_end);
  drain_workqueue(ordered);
  EXPECT_EQ(second.ended, 1);
  destroy_workqueue(ordered);
}

struct Later {
  delayed_work work{};
  std::atomic<int> ran{};
  Later() {
    INIT_DELAYED_WORK(
        &work, [](work_struct* due) { ++container_of(to_delayed_work(due), Later, work)->ran; });
  }
};

TEST_F(KenvWorkQueue, ADelayedWorkRunsAfterItsDelayAndNotIfItIsCancelled) {
  Later soon;
  Later late;
  const unsigned long begin = jiffies;
  EXPECT_TRUE(queue_delayed_work(queue_, &soon.work, kSoon));
  EXPECT_FALSE(queue_delayed_work(queue_, &soon.work, kSoon));
  EXPECT_TRUE(queue_delayed_work(queue_, &late.work, kLong));
  while (soon.ran == 0) {
    msleep(1);
  }
  EXPECT_GE(jiffies - begin, kSoon);
  EXPECT_TRUE(cancel_delayed_work_sync(&late.work));
  EXPECT_FALSE(cancel_delayed_work_sync(&late.work));
  EXPECT_EQ(late.ran, 0);
}

TEST_F(KenvWorkQueue, AFlushDoesNotWaitForADelayAndANewDelayCounts) {
  Later flushed;
  queue_delayed_work(queue_, &flushed.work, kLong);
  EXPECT_TRUE(flush_delayed_work(&flushed.work));
  EXPECT_EQ(flushed.ran, 1);
  Later sooner;
  EXPECT_FALSE(mod_delayed_work(queue_, &sooner.work, kLong));
  EXPECT_TRUE(mod_delayed_work(queue_, &sooner.work, 1));
  while (sooner.ran == 0) {
    msleep(1);
  }
  flush_workqueue(queue_);
}

struct Clock {
  timer_list timer{};
  std::atomic<int> rings{};
  std::atomic<bool> repeats{};
  Clock() {
    timer_setup(
        &timer,
        [](timer_list* due) {
          Clock& clock = *container_of(due, Clock, timer);
          ++clock.rings;
          if (clock.repeats) {
            mod_timer(due, jiffies + 1);
          }
        },
        0);
  }
};

TEST(KenvTimer, RingsOnceAtItsTime) {
  Clock clock;
  EXPECT_EQ(mod_timer(&clock.timer, jiffies + kLong), 0);
  EXPECT_TRUE(timer_pending(&clock.timer));
  const unsigned long begin = jiffies;
  EXPECT_EQ(mod_timer(&clock.timer, begin + 10), 1);
  while (clock.rings == 0) {
    msleep(1);
  }
  EXPECT_GE(jiffies - begin, 10U);
  EXPECT_EQ(del_timer_sync(&clock.timer), 0);
  EXPECT_EQ(clock.rings, 1);
}

TEST(KenvTimer, ADeletedOneDoesNotRing) {
  Clock clock;
  mod_timer(&clock.timer, jiffies + kSoon);
  EXPECT_EQ(del_timer(&clock.timer), 1);
  EXPECT_EQ(del_timer(&clock.timer), 0);
  msleep(2 * kSoon);
  EXPECT_EQ(clock.rings, 0);
}

TEST(KenvTimer, OneThatSetsItselfAgainEndsWhenItIsDeleted) {
  Clock clock;
  clock.repeats = true;
  mod_timer(&clock.timer, jiffies + 1);
  while (clock.rings < 3) {
    msleep(1);
  }
  clock.repeats = false;  // as kernels ask of who deletes such a timer
  del_timer_sync(&clock.timer);
  const int rings = clock.rings;
  msleep(kSoon);
  EXPECT_EQ(clock.rings, rings);
}

}  // namespace
