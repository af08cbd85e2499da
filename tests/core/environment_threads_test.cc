#include <gtest/gtest.h>

#include <atomic>
#include <deque>

#include "core/work.h"
#include "threaded_environment.h"

namespace weft::core {
namespace {

TEST(EnvironmentThreads, RunWhatOthersWaitForHoweverManyWait) {
  constexpr int kWaiting = 20;
  testing::ThreadedEnvironment environment;
  std::atomic<bool> is_over{};
  std::atomic<int> ended{};
  std::deque<Work> waiting;
  for (int i = 0; i < kWaiting; ++i) {
    waiting.emplace_back(environment, WorkContext::UnboundWorkQueue, 0, [&] {
      environment.wait_until([&] { return is_over.load(); },
                             environment.now() + Duration::seconds(60));
      ++ended;
    });
    waiting.back().queue();
  }
  Work last{environment, WorkContext::UnboundWorkQueue, 0, [&] {
              is_over = true;
              environment.notify();
            }};
  last.queue();
  EXPECT_TRUE(environment.wait_until([&] { return is_over.load(); },
                                     environment.now() + Duration::seconds(30)))
      << "all threads sleep in tasks that wait for one that has none";
  for (Work& work : waiting) {
    work.flush();
  }
  last.flush();
  EXPECT_EQ(ended, kWaiting);
}

}  // namespace
}  // namespace weft::core
