#include "core/call_queue.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/testing/manual_environment.h"

namespace weft::core {
namespace {

TEST(CallQueues, MakeTheirCallsInOrderAndLater) {
  testing::ManualEnvironment environment;
  CallQueue queue{environment};
  std::vector<int> made;
  queue.add([&] {
    made.push_back(1);
    queue.add([&] { made.push_back(3); });
  });
  queue.add([&] { made.push_back(2); });
  EXPECT_TRUE(made.empty());
  EXPECT_FALSE(queue.is_idle());
  environment.run_all();
  EXPECT_EQ(made, (std::vector{1, 2, 3}));
  EXPECT_TRUE(queue.is_idle());
}

TEST(CallQueues, GoOnWhileCallsOfAnotherBlock) {
  testing::ManualEnvironment environment;
  CallQueue blocked{environment};
  CallQueue other{environment};
  std::vector<int> made;
  bool is_released = false;
  blocked.add([&] {
    environment.wait_until([&] { return is_released; }, Instant::never());
    made.push_back(2);
  });
  blocked.add([&] { made.push_back(3); });
  other.add([&] {
    made.push_back(1);
    is_released = true;
  });
  environment.run_all();
  EXPECT_EQ(made, (std::vector{1, 2, 3}));
}

}  // namespace
}  // namespace weft::core
