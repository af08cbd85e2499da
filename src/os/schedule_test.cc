#include "os/schedule.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>

#include <thread>

namespace weft::os {
namespace {

TEST(Schedule, KeepsPolicyAndNiceOfTheThread) {
  std::thread{[] {
    const int policy = sched_getscheduler(0);
    const int nice = getpriority(PRIO_PROCESS, 0);
    request_prompt_scheduling();
    EXPECT_EQ(sched_getscheduler(0), policy);
    EXPECT_EQ(getpriority(PRIO_PROCESS, 0), nice);
  }}.join();
}

}  // namespace
}  // namespace weft::os
