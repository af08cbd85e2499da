// The subnet manager brings a fabric of thousands of hosts up, by MADs alone.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <string>

#include "fabric/topology.h"
#include "node/testing/managed_fabric.h"
#include "subnet/subnet_manager.h"

namespace weft::node {
namespace {

using subnet::RoutingEngine;
using subnet::SubnetManager;
using ::testing::IsEmpty;
using testing::ManagedFabric;

/// 5,832 hosts on 972 switches: three levels of 18 ports up and down.
fabric::Topology large_tree() {
  constexpr std::uint32_t kRadix = 18;
  fabric::Topology topology;
  const auto cable = [&](fabric::NodeKind kind, std::uint32_t node, std::uint32_t port,
                         std::uint32_t to, std::uint32_t to_port) {
    topology.links.push_back({
        .a = {kind, node, 0, PortNumber{static_cast<std::uint8_t>(port)}},
        .b = {fabric::NodeKind::Switch, to, 0, PortNumber{static_cast<std::uint8_t>(to_port)}},
        .rate_gbps = {},
        .delay = {}
    });
  };
  const std::uint32_t level = kRadix * kRadix;
  for (std::uint32_t i = 0; i < 3 * level; ++i) {
    topology.switches.push_back(
        {.name = "s" + std::to_string(i + 1), .port_count = 2 * kRadix, .guid = {}});
  }
  for (std::uint32_t i = 0; i < level * kRadix; ++i) {
    topology.hosts.push_back(fabric::make_host("h" + std::to_string(i + 1)));
    cable(fabric::NodeKind::Host, i, 1, i / kRadix, i % kRadix + 1);
  }
  for (std::uint32_t i = 0; i < level; ++i) {
    for (std::uint32_t k = 0; k < kRadix; ++k) {
      const std::uint32_t pod = i / kRadix;
      cable(fabric::NodeKind::Switch, i, kRadix + 1 + k, level + pod * kRadix + k, i % kRadix + 1);
      cable(fabric::NodeKind::Switch, level + i, kRadix + 1 + k,
            2 * level + i % kRadix * kRadix + k, pod + 1);
    }
  }
  return topology;
}

TEST(LargeFabric, ComesUp) {
  using Clock = std::chrono::steady_clock;
  ManagedFabric fabric{large_tree()};
  const auto start = Clock::now();
  SubnetManager& manager = fabric.add_manager("h1");
  fabric.settle();
  const auto taken = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
  std::printf("5,832 hosts, 972 switches: %d ms, %d reads, %d writes, engine %s\n",
              static_cast<int>(taken.count()), static_cast<int>(manager.counters().reads),
              static_cast<int>(manager.counters().writes),
              std::string{name_of(manager.engine())}.c_str());
  EXPECT_TRUE(manager.is_settled());
  EXPECT_EQ(manager.engine(), RoutingEngine::FatTree);
  EXPECT_THAT(fabric.unreachable(9973), IsEmpty());
}

}  // namespace
}  // namespace weft::node
