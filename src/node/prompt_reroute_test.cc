// Links that are cut during a sweep, which makes its results outdated.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "fabric/topology.h"
#include "node/testing/managed_fabric.h"
#include "subnet/subnet_manager.h"

namespace weft::node {
namespace {

using subnet::SubnetManager;
using ::testing::IsEmpty;
using testing::ManagedFabric;

constexpr Duration kBatch = Duration::milliseconds(4);

void begin_sweep(ManagedFabric& fabric, SubnetManager& manager) {
  manager.request_sweep(fabric.now);
  fabric.plane.wake(fabric.port("h1", 1));
}

// Rerouting takes at most 100 ms, whatever the manager is doing when the trap arrives (IBTA vol 1
// §14.3.13).
TEST(PromptReroute, ALinkThatIsCutInTheMiddleOfAHeavySweepIsRoutedAroundWithin100Milliseconds) {
  unsigned cuts_in_a_sweep = 0;
  for (const auto& [node, number] : {
           std::pair{"s1",  5},
           {"s1",  8},
           {"s9",  1},
           {"s33", 7},
           {"s65", 2},
           {"s80", 8}
  }) {
    for (int turns = 0; turns < 8; ++turns) {
      SCOPED_TRACE(std::string{node} + ":" + std::to_string(number) +
                   " after turns: " + std::to_string(turns));
      ManagedFabric fabric{*fabric::generate("fat-tree:8:3")};
      SubnetManager& manager = fabric.add_manager("h1");
      fabric.settle();
      begin_sweep(fabric, manager);
      fabric.run_slowly(kBatch * turns, kBatch);
      const std::uint64_t sweeps = manager.counters().sweeps;
      cuts_in_a_sweep += manager.is_settled() ? 0 : 1;
      const fabric::PortIndex cut = fabric.port(node, static_cast<std::uint8_t>(number));
      ASSERT_TRUE(fabric.plane.set_link(cut, false, fabric.now).has_value());
      fabric.run_slowly(Duration::milliseconds(100), kBatch);
      EXPECT_THAT(fabric.unreachable(7), IsEmpty());
      EXPECT_EQ(manager.counters().reroutes, 1U);
      EXPECT_LE(manager.counters().last_reroute, Duration::milliseconds(100));
      fabric.settle();
      EXPECT_THAT(fabric.unreachable(7), IsEmpty());
      EXPECT_TRUE(manager.is_settled());
      EXPECT_GT(manager.counters().sweeps, sweeps);
    }
  }
  EXPECT_GE(cuts_in_a_sweep, 6U * 2U);
}

// The second sweep knows which writes of the first one took effect.
TEST(PromptReroute, ASecondLinkThatIsCutWhileRoutesAreWrittenIsRoutedAroundToo) {
  std::uint64_t abandoned = 0;
  for (int turns = 0; turns < 12; ++turns) {
    SCOPED_TRACE("after turns: " + std::to_string(turns));
    ManagedFabric fabric{*fabric::generate("fat-tree:8:3")};
    SubnetManager& manager = fabric.add_manager("h1");
    fabric.settle();
    ASSERT_TRUE(fabric.plane.set_link(fabric.port("s40", 7), false, fabric.now).has_value());
    fabric.run_slowly(kBatch * turns, kBatch);
    ASSERT_TRUE(fabric.plane.set_link(fabric.port("s2", 6), false, fabric.now).has_value());
    fabric.run_slowly(Duration::milliseconds(100), kBatch);
    EXPECT_THAT(fabric.unreachable(7), IsEmpty());
    fabric.settle();
    EXPECT_THAT(fabric.unreachable(), IsEmpty());
    EXPECT_TRUE(manager.is_settled());
    abandoned += manager.counters().aborted;
  }
  EXPECT_GE(abandoned, 4U);
}

// With link delays, a sweep takes time by itself: here each round trip takes up to 1.2 ms.
TEST(PromptReroute, SweepsOverLinksWithADelayAreEndedAndBegunAgainInTime) {
  fabric::Topology topology = *fabric::generate("fat-tree:8:3");
  for (auto& link : topology.links) {
    link.delay = Duration::microseconds(100);
  }
  for (const int before_us : {500, 2000, 5000, 9000, 14000}) {
    SCOPED_TRACE(before_us);
    ManagedFabric fabric{topology};
    SubnetManager& manager = fabric.add_manager("h1");
    fabric.settle();
    begin_sweep(fabric, manager);
    fabric.run_for(Duration::microseconds(before_us));
    ASSERT_TRUE(fabric.plane.set_link(fabric.port("s40", 7), false, fabric.now).has_value());
    fabric.run_for(Duration::milliseconds(100));
    EXPECT_THAT(fabric.unreachable(7), IsEmpty());
    EXPECT_EQ(manager.counters().reroutes, 1U);
    EXPECT_GE(manager.counters().last_reroute, Duration::milliseconds(2)) << "trips take time";
  }
}

TEST(PromptReroute, LinksThatChangeAllTheTimeKeepNoSweepFromItsEnd) {
  ManagedFabric fabric{*fabric::generate("fat-tree:8:3")};
  SubnetManager& manager = fabric.add_manager("h1");
  fabric.settle();
  const std::uint64_t sweeps = manager.counters().sweeps;
  const std::uint64_t abandoned = manager.counters().aborted;
  for (int change = 0; change < 1000; ++change) {  // four seconds
    const std::string host = "h" + std::to_string(5 + change % 124);
    const bool is_up = change / 124 % 2 != 0;
    ASSERT_TRUE(fabric.plane.set_link(fabric.port(host, 1), is_up, fabric.now).has_value());
    fabric.run_slowly(kBatch, kBatch);
  }
  EXPECT_LE(manager.counters().aborted - abandoned, 8U + 2U);
  EXPECT_GE(manager.counters().sweeps - sweeps, 10U);
  EXPECT_GE(manager.counters().traps, 20U);
  fabric.settle();
  EXPECT_THAT(fabric.unreachable(3), IsEmpty());
  EXPECT_TRUE(manager.is_settled());
}

}  // namespace
}  // namespace weft::node
