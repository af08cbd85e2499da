#include "programs/loop/handoff_list.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace weft::programs {
namespace {

struct Node {
  int giver{};
  int number{};
  Node* next{};
};

TEST(HandoffList, AsksToTellOnceUntilAllAreTaken) {
  HandoffList<Node> list;
  std::array<Node, 3> nodes{};
  EXPECT_TRUE(list.push(nodes[0]));
  EXPECT_FALSE(list.push(nodes[1]));
  int taken = 0;
  list.take_all([&](Node&) { ++taken; });
  EXPECT_EQ(taken, 2);
  EXPECT_TRUE(list.push(nodes[2]));
}

TEST(HandoffList, GivesThemInTheOrderInWhichTheyCame) {
  HandoffList<Node> list;
  std::vector<Node> nodes(5);
  for (int i = 0; i < 5; ++i) {
    nodes[static_cast<std::size_t>(i)].number = i;
    static_cast<void>(list.push(nodes[static_cast<std::size_t>(i)]));
  }
  std::vector<int> order;
  list.take_all([&](const Node& node) { order.push_back(node.number); });
  EXPECT_EQ(order, (std::vector{0, 1, 2, 3, 4}));
}

TEST(HandoffList, ANodeMayBePushedAgainOrEndWhileOthersAreTaken) {
  HandoffList<Node> list;
  auto first = std::make_unique<Node>();
  Node second;
  static_cast<void>(list.push(*first));
  static_cast<void>(list.push(second));
  std::vector<bool> told;
  list.take_all([&](Node& node) {
    if (&node == first.get()) {
      first.reset();
    } else {
      told.push_back(list.push(node));
    }
  });
  EXPECT_EQ(told, std::vector{true});
  int taken = 0;
  list.take_all([&](Node&) { ++taken; });
  EXPECT_EQ(taken, 1);
}

// One who is not told would wait for ever; here it is found by the bound.
TEST(HandoffList, NothingOfSeveralThreadsIsLostOrOvertaken) {
  constexpr int kGivers = 3;
  constexpr int kEach = 20'000;
  HandoffList<Node> list;
  std::atomic<int> notices{0};
  std::vector<std::vector<Node>> nodes(kGivers, std::vector<Node>(kEach));
  std::vector<std::thread> givers;
  for (int giver = 0; giver < kGivers; ++giver) {
    givers.emplace_back([&, giver] {
      int number = 0;
      for (Node& node : nodes[static_cast<std::size_t>(giver)]) {
        node.giver = giver;
        node.number = number++;
        if (list.push(node)) {
          notices.fetch_add(1);
          notices.notify_one();
        }
      }
    });
  }
  std::array<int, kGivers> next{};
  int taken = 0;
  int overtaken = 0;
  for (int handled = 0; taken < kGivers * kEach; ++handled) {
    notices.wait(handled);
    list.take_all([&](const Node& node) {
      overtaken += next.at(static_cast<std::size_t>(node.giver))++ == node.number ? 0 : 1;
      ++taken;
    });
  }
  for (std::thread& giver : givers) {
    giver.join();
  }
  EXPECT_EQ(overtaken, 0);
}

}  // namespace
}  // namespace weft::programs
