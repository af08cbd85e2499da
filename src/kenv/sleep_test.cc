// Who waits, and who wakes: wait queues, completions, semaphores, kthreads.

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/errno.h>
#include <linux/kthread.h>
#include <linux/semaphore.h>
#include <linux/wait.h>

namespace {

constexpr unsigned kSoon = 20;           // ms, policy: longer than a thread needs to fall asleep
constexpr unsigned long kLong = 20'000;  // ms, policy: a wait that a test does not wait out

TEST(KenvCompletion, EachCompleteLetsOneThrough) {
  DECLARE_COMPLETION(done);
  EXPECT_FALSE(completion_done(&done));
  EXPECT_EQ(wait_for_completion_timeout(&done, 1), 0U);
  complete(&done);
  complete(&done);
  EXPECT_TRUE(try_wait_for_completion(&done));
  EXPECT_GT(wait_for_completion_timeout(&done, kLong), 0U);
  EXPECT_FALSE(try_wait_for_completion(&done));
}

TEST(KenvCompletion, CompleteAllLetsEverybodyThroughFromThenOn) {
  DECLARE_COMPLETION(done);
  std::atomic<int> through{};
  std::thread a{[&] {
    wait_for_completion(&done);
    ++through;
  }};
  std::thread b{[&] {
    wait_for_completion(&done);
    ++through;
  }};
  msleep(kSoon);
  EXPECT_EQ(through, 0);
  complete_all(&done);
  a.join();
  b.join();
  EXPECT_EQ(through, 2);
  EXPECT_TRUE(try_wait_for_completion(&done));
  reinit_completion(&done);
  EXPECT_FALSE(try_wait_for_completion(&done));
}

TEST(KenvCompletion, OneOfTheStackMayGoAsSoonAsItIsWaitedFor) {
  for (int i = 0; i < 200; ++i) {
    std::atomic<completion*> given{};
    std::thread other{[&] {
      completion* to = nullptr;
      while ((to = given.load()) == nullptr) {
        std::this_thread::yield();
      }
      complete(to);
    }};
    {
      DECLARE_COMPLETION(done);
      given = &done;
      wait_for_completion(&done);
    }
    other.join();
  }
}

TEST(KenvWaitQueue, WakesWhenTheConditionHoldsAndNotBefore) {
  DECLARE_WAIT_QUEUE_HEAD(queue);
  std::atomic<int> state{};
  std::atomic<bool> is_through{};
  std::thread waiter{[&] {
    EXPECT_EQ(wait_event_interruptible(queue, state >= 2), 0);
    is_through = true;
  }};
  state = 1;
  wake_up(&queue);
  msleep(kSoon);
  EXPECT_FALSE(is_through);
  state = 2;
  wake_up_interruptible(&queue);
  waiter.join();
  EXPECT_FALSE(waitqueue_active(&queue));
}

TEST(KenvWaitQueue, NoWakeUpIsLostBetweenLookAndSleep) {
  DECLARE_WAIT_QUEUE_HEAD(queue);
  std::atomic<int> turn{};
  constexpr int kTurns = 5'000;
  std::thread other{[&] {
    for (int i = 1; i < kTurns; i += 2) {
      wait_event(queue, turn == i);
      ++turn;
      wake_up(&queue);
    }
  }};
  for (int i = 0; i < kTurns; i += 2) {
    EXPECT_GT(wait_event_timeout(queue, turn == i, kLong), 0);
    ++turn;
    wake_up(&queue);
  }
  other.join();
}

TEST(KenvWaitQueue, ATimeoutSaysWhetherTheConditionHeldAtItsEnd) {
  DECLARE_WAIT_QUEUE_HEAD(queue);
  EXPECT_EQ(wait_event_timeout(queue, false, 5), 0);
  EXPECT_GE(wait_event_timeout(queue, true, 0), 1) << "it holds, whatever the time";
  EXPECT_GE(wait_event_interruptible_timeout(queue, true, 5), 1);
}

TEST(KenvWaitQueue, ASignalEndsAnInterruptibleWaitOnly) {
  DECLARE_WAIT_QUEUE_HEAD(queue);
  std::atomic<task_struct*> task{};
  std::atomic<bool> may_end{};
  std::atomic<int> ended{};
  std::thread waiter{[&] {
    task = weft_kenv_current();
    EXPECT_EQ(wait_event_interruptible(queue, may_end), -ERESTARTSYS);
    ended = 1;
    wait_event(queue, may_end);
    ended = 2;
  }};
  while (task == nullptr) {
    msleep(1);
  }
  weft_kenv_signal(task);
  while (ended == 0) {
    msleep(1);
  }
  msleep(kSoon);
  EXPECT_EQ(ended, 1);
  may_end = true;
  wake_up_all(&queue);
  waiter.join();
}

TEST(KenvSemaphore, CountsAndTimesOut) {
  DEFINE_SEMAPHORE(sem, 1);
  EXPECT_EQ(down_interruptible(&sem), 0);
  EXPECT_EQ(down_trylock(&sem), 1);
  EXPECT_EQ(down_timeout(&sem, 5), -ETIME);
  std::thread other{[&] { up(&sem); }};
  down(&sem);
  other.join();
  up(&sem);
  EXPECT_EQ(down_trylock(&sem), 0);
}

int serve_until_stopped(void* data) {
  auto* const rounds = static_cast<std::atomic<int>*>(data);
  while (!kthread_should_stop()) {
    ++*rounds;
    set_current_state(TASK_INTERRUPTIBLE);
    if (!kthread_should_stop()) {
      schedule();
    }
    set_current_state(TASK_RUNNING);
  }
  return 42;
}

TEST(KenvKthread, StopsAndGivesItsResult) {
  std::atomic<int> rounds{};
  task_struct* const task = kthread_run(serve_until_stopped, &rounds, "worker/%d", 3);
  ASSERT_FALSE(IS_ERR(task));
  EXPECT_STREQ(&task->comm[0], "worker/3");
  while (rounds == 0) {
    msleep(1);
  }
  EXPECT_EQ(kthread_stop(task), 42);
}

TEST(KenvKthread, OneThatWasNeverWokenIsStoppedWithoutItsFunction) {
  std::atomic<int> rounds{};
  task_struct* const task = kthread_create(serve_until_stopped, &rounds, "never");
  ASSERT_FALSE(IS_ERR(task));
  EXPECT_EQ(kthread_stop(task), -EINTR);
  EXPECT_EQ(rounds, 0);
}

TEST(KenvKthread, OneThatHasEndedIsStillThereForWhoHoldsIt) {
  const auto end = [](void* /*data*/) { return 7; };
  task_struct* const task = kthread_create(end, nullptr, "ends");
  ASSERT_FALSE(IS_ERR(task));
  get_task_struct(task);
  wake_up_process(task);
  msleep(kSoon);
  EXPECT_EQ(kthread_stop(task), 7);
  put_task_struct(task);
}

}  // namespace
