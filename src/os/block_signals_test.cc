#include "os/block_signals.h"

#include <gtest/gtest.h>

#include <csignal>

namespace weft::os {
namespace {

TEST(QuietThread, TakesNoSignalsOfTheProgram) {
  bool blocks_all = false;
  std::thread thread = block_signals([&] {
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    blocks_all = sigismember(&mask, SIGINT) == 1 && sigismember(&mask, SIGUSR1) == 1 &&
                 sigismember(&mask, SIGALRM) == 1;
  });
  thread.join();
  EXPECT_TRUE(blocks_all);
}

TEST(QuietThread, LeavesTheSignalsOfWhoStartsItAsTheyWere) {
  std::thread thread = block_signals([] {});
  thread.join();
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  EXPECT_EQ(sigismember(&mask, SIGUSR1), 0);
}

}  // namespace
}  // namespace weft::os
