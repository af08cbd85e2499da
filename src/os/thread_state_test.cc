#include "os/thread_state.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <sstream>
#include <thread>

#include "os/peer_memory.h"

namespace weft::os {
namespace {

TEST(ThreadStateOfTheKernel, IsRead) {
  std::istringstream text{
      "Name:\tState: R\nState:\tS (sleeping)\nvoluntary_ctxt_switches:\t40\n"
      "nonvoluntary_ctxt_switches:\t2\n"};
  const auto state = read_thread_state(text);
  ASSERT_TRUE(state);
  EXPECT_FALSE(state->is_gone);
  EXPECT_FALSE(state->is_runnable);
  EXPECT_EQ(state->switches, 42U);
}

TEST(ThreadStateOfTheKernel, IsUnknownWithoutAllOfIt) {
  std::istringstream text{"State:\tR (running)\nvoluntary_ctxt_switches:\t40\n"};
  EXPECT_FALSE(read_thread_state(text));
}

TEST(ThreadStateOfTheKernel, OfThisThreadIsRunnableAndCountsItsSleeps) {
  const auto before = thread_state(getpid(), thread_id());
  ASSERT_TRUE(before);
  EXPECT_TRUE(before->is_runnable);
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_GT(thread_state(getpid(), thread_id())->switches, before->switches);
}

TEST(ThreadStateOfTheKernel, OfAStoppedAndOfAnEndedProcess) {
  const pid_t child = fork();
  if (child == 0) {
    raise(SIGSTOP);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  const auto number = static_cast<std::uint32_t>(child);
  EXPECT_FALSE(thread_state(child, number)->is_runnable);
  EXPECT_FALSE(thread_state(child, number)->is_gone);
  kill(child, SIGKILL);
  siginfo_t ended{};
  ASSERT_EQ(waitid(P_PID, number, &ended, WEXITED | WNOWAIT), 0);
  EXPECT_TRUE(thread_state(child, number)->is_gone) << "a zombie";
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(thread_state(child, number)->is_gone);
}

TEST(InterruptionOfAThread, IsSeenByTwoLooks) {
  const ThreadState running{.is_runnable = true, .switches = 5};
  const ThreadState switched{.is_runnable = true, .switches = 6};
  const ThreadState stopped{.is_runnable = false, .switches = 5};
  const auto seen = [](const ThreadState& first, const ThreadState& second) {
    InterruptionWatch watch;
    return !watch.has_been_interrupted(first) && watch.has_been_interrupted(second);
  };
  EXPECT_FALSE(seen(running, running)) << "it may have been on its CPU all the time";
  EXPECT_TRUE(seen(running, switched));
  EXPECT_TRUE(seen(stopped, stopped)) << "off its CPU from before the first look";
  EXPECT_FALSE(seen(stopped, running)) << "it may not have left the CPU";
  EXPECT_FALSE(seen(running, stopped)) << "nor may this one, yet";
  EXPECT_TRUE(InterruptionWatch{}.has_been_interrupted({.is_gone = true}));
}

}  // namespace
}  // namespace weft::os
