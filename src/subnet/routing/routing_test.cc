#include "subnet/routing/routing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "subnet/routing/graph.h"
#include "subnet/routing/layers.h"
#include "subnet/testing/route_checker.h"
#include "subnet/testing/subnets.h"

namespace weft::subnet {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::RouteChecker;

struct Routed {
  explicit Routed(Subnet routed_subnet) : subnet(std::move(routed_subnet)) {}

  Subnet subnet;
  RoutingGraph graph{make_routing_graph(subnet)};
  Routing routing{};

  [[nodiscard]] RouteChecker checker() const {
    return {subnet, [this](NodeId node, Lid lid) {
              return routing.forwarding[graph.position_of[node.value()]][lid.value()];
            }};
  }
  [[nodiscard]] bool may_deadlock() const {
    return checker().may_deadlock([this](PortId source, Lid lid) -> unsigned {
      const NodeId first =
          subnet.node(source.node).is_switch() ? source.node : subnet.port(source).peer.node;
      return routing.sl_of(graph.position_of[first.value()], lid).value();
    });
  }
};

Result<Routing> route(RoutingEngine engine, const RoutingGraph& graph) {
  switch (engine) {
    case RoutingEngine::MinHop:
      return route_min_hop(graph);
    case RoutingEngine::UpDown:
      return route_up_down(graph);
    case RoutingEngine::FatTree:
      return route_fat_tree(graph);
    case RoutingEngine::DeadlockFree:
      return route_deadlock_free(graph, 8);
  }
  return fail(ErrorCode::InvalidArgument, "no engine");
}

struct Case {
  std::string name;
  std::function<Subnet()> make;
  bool is_fat_tree{};
};

std::vector<Case> cases() {
  using namespace std::string_literals;
  std::vector<Case> all{
      {"pair", testing::pair, true},
      {"fat_tree_2", [] { return testing::fat_tree(4, 2); }, true},
      {"fat_tree_3", [] { return testing::fat_tree(3, 3); }, true},
      {"fat_tree_parallel", [] { return testing::fat_tree(4, 2, 2); }, true},
      {"fat_tree_lmc", [] { return testing::fat_tree(4, 2, 1, 2); }, true},
      {"torus_2d", [] { return testing::torus({4, 5}, 1); }},
      {"torus_3d", [] { return testing::torus({3, 4, 3}, 1); }},
      {"torus_lmc", [] { return testing::torus({4, 4}, 1, 1); }},
      {"dragonfly", [] { return testing::dragonfly(4, 2, 2); }},
  };
  for (std::uint32_t seed = 1; seed <= 12; ++seed) {
    all.push_back({"random_" + std::to_string(seed), [seed] {
                     Subnet subnet = testing::random_graph(20, 5 + 3 * seed, seed);
                     testing::cut_links(subnet, 8, seed);
                     return subnet;
                   }});
    all.push_back({"broken_tree_" + std::to_string(seed), [seed] {
                     Subnet subnet = testing::fat_tree(4, 2 + seed % 2);
                     testing::cut_links(subnet, 10, seed);
                     return subnet;
                   }});
  }
  return all;
}

// Min-hop, up/down, fat-tree and deadlock-free.
TEST(Routing, EveryEngineReachesEverythingThatCablesReachWithoutLoops) {
  for (const Case& each : cases()) {
    for (const RoutingEngine engine : {RoutingEngine::MinHop, RoutingEngine::UpDown,
                                       RoutingEngine::FatTree, RoutingEngine::DeadlockFree}) {
      SCOPED_TRACE(each.name + " by " + std::string{name_of(engine)});
      Routed routed{each.make()};
      auto result = route(engine, routed.graph);
      ASSERT_TRUE(result.has_value() || (engine == RoutingEngine::FatTree && !each.is_fat_tree))
          << result.error().reason;
      if (!result) {
        continue;
      }
      routed.routing = std::move(*result);
      EXPECT_THAT(routed.checker().unreachable(), IsEmpty());
      if (engine != RoutingEngine::MinHop) {
        EXPECT_FALSE(routed.may_deadlock());
      }
    }
  }
}

TEST(Routing, ShortestPathsOnATorusWouldDeadlockOnOneLane) {
  Routed routed{testing::torus({5, 5}, 1)};
  routed.routing = route_min_hop(routed.graph);
  EXPECT_TRUE(routed.may_deadlock());  // what the other engines avoid, and the checker sees
  EXPECT_FALSE(route_deadlock_free(routed.graph, 1));
  routed.routing = *route_deadlock_free(routed.graph, 8);
  EXPECT_FALSE(routed.may_deadlock());
  EXPECT_GT(routed.routing.vl_count, 1);
  EXPECT_LE(routed.routing.vl_count, 6);
}

TEST(Routing, DeadlockFreePathsAreAsShortAsMinHop) {
  Routed shortest{testing::torus({4, 5}, 2)};
  shortest.routing = route_min_hop(shortest.graph);
  Routed layered{testing::torus({4, 5}, 2)};
  layered.routing = *route_deadlock_free(layered.graph, 8);
  const RouteChecker a = shortest.checker();
  const RouteChecker b = layered.checker();
  for (const PortId source : a.end_ports()) {
    for (const PortId destination : a.end_ports()) {
      const Lid lid = shortest.subnet.port(destination).info.lid;
      EXPECT_EQ(a.walk(source, lid)->size(), b.walk(source, lid)->size());
    }
  }
}

TEST(Routing, LayersAreRefusedWhenThereAreTooFew) {
  const Routed routed{testing::torus({5, 5}, 1)};
  Routing routing = route_min_hop(routed.graph);
  const auto refused = assign_layers(routed.graph, 1, routing);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().reason, HasSubstr("more than the 1 data VLs"));
}

TEST(Routing, TreesNeedOneLaneOnly) {
  for (const std::uint32_t levels : {2U, 3U}) {
    const Routed routed{testing::fat_tree(4, levels)};
    EXPECT_EQ(route_deadlock_free(routed.graph, 1)->vl_count, 1);
  }
}

/// How many of the pairs cross each directed cable.
std::map<PortId, unsigned> crossings(const Routed& routed,
                                     const std::vector<std::pair<PortId, Lid>>& pairs) {
  std::map<PortId, unsigned> sum;
  for (const auto& [source, lid] : pairs) {
    const auto way = routed.checker().walk(source, lid);
    for (const PortId egress : *way) {
      ++sum[egress];
    }
  }
  return sum;
}

std::vector<PortId> hosts_of(const Routed& routed) {
  std::vector<PortId> hosts = routed.checker().end_ports();
  std::erase_if(hosts, [&](PortId port) { return routed.subnet.node(port.node).is_switch(); });
  return hosts;
}

TEST(Routing, FatTreeCarriesEveryShiftWithoutContention) {
  for (const std::uint32_t levels : {2U, 3U}) {
    Routed routed{testing::fat_tree(4, levels)};
    routed.routing = *route_fat_tree(routed.graph);
    const std::vector<PortId> hosts = hosts_of(routed);
    for (std::size_t shift = 1; shift < hosts.size(); ++shift) {
      std::vector<std::pair<PortId, Lid>> pairs;
      for (std::size_t i = 0; i < hosts.size(); ++i) {
        pairs.emplace_back(hosts[i],
                           routed.subnet.port(hosts[(i + shift) % hosts.size()]).info.lid);
      }
      for (const auto& [port, count] : crossings(routed, pairs)) {
        ASSERT_EQ(count, 1U) << "shift " << shift << " of " << levels << " levels";
      }
    }
  }
}

TEST(Routing, FatTreeWithParallelCablesCarriesEveryShiftWithoutContention) {
  Routed routed{testing::fat_tree(4, 2, 2)};
  routed.routing = *route_fat_tree(routed.graph);
  const std::vector<PortId> hosts = hosts_of(routed);
  for (std::size_t shift = 1; shift < hosts.size(); ++shift) {
    std::vector<std::pair<PortId, Lid>> pairs;
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      pairs.emplace_back(hosts[i], routed.subnet.port(hosts[(i + shift) % hosts.size()]).info.lid);
    }
    for (const auto& [port, count] : crossings(routed, pairs)) {
      ASSERT_EQ(count, 1U) << "shift " << shift;
    }
  }
}

TEST(Routing, FatTreeServesAsManyHostsByEachPortUpwards) {
  Routed routed{testing::fat_tree(4, 3)};
  routed.routing = *route_fat_tree(routed.graph);
  for (std::uint32_t position = 0; position < routed.graph.size(); ++position) {
    std::map<PortNumber, unsigned> hosts;
    for (const RoutingLink& link : routed.graph.links_of(position)) {
      if (routed.graph.level[link.to] > routed.graph.level[position]) {
        hosts[link.port] = 0;
      }
    }
    for (const RoutingDestination& each : routed.graph.destinations) {
      const PortNumber port = routed.routing.forwarding[position][each.lid.value()];
      if (each.is_host && hosts.contains(port)) {
        ++hosts[port];
      }
    }
    for (const auto& [port, count] : hosts) {
      EXPECT_EQ(count, hosts.begin()->second);
    }
  }
}

TEST(Routing, MinHopSpreadsLidsOverEqualPaths) {
  Routed routed{testing::fat_tree(4, 2)};
  routed.routing = route_min_hop(routed.graph);
  for (std::uint32_t position = 0; position < routed.graph.size(); ++position) {
    if (routed.graph.host_ports[position] == 0) {
      continue;
    }
    std::map<PortNumber, unsigned> lids;
    for (const RoutingDestination& each : routed.graph.destinations) {
      ++lids[routed.routing.forwarding[position][each.lid.value()]];
    }
    for (const RoutingLink& link : routed.graph.links_of(position)) {
      EXPECT_GE(lids[link.port], 3U);  // 12 hosts elsewhere over 4 cables, and switches
      EXPECT_LE(lids[link.port], 5U);
    }
  }
}

TEST(Routing, LidsOfOnePortTakeDifferentWays) {
  for (const RoutingEngine engine :
       {RoutingEngine::MinHop, RoutingEngine::FatTree, RoutingEngine::DeadlockFree}) {
    Routed routed{testing::fat_tree(4, 2, 1, 2)};
    routed.routing = *route(engine, routed.graph);
    const std::vector<PortId> hosts = hosts_of(routed);
    const Lid base = routed.subnet.port(hosts.back()).info.lid;
    std::set<NodeId> spines;
    for (std::uint32_t bits = 0; bits < 4; ++bits) {
      const auto way = routed.checker().walk(hosts.front(), Lid{base.value() + bits});
      ASSERT_TRUE(way.has_value());
      spines.insert(way->at(1).node);
    }
    EXPECT_EQ(spines.size(), 4U) << name_of(engine);
  }
}

TEST(Routing, FatTreeSaysWhyAGraphIsNone) {
  const Routed routed{testing::torus({3, 3}, 1)};
  const auto refused = route_fat_tree(routed.graph);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().reason, HasSubstr("not a fat tree"));
}

TEST(Routing, ACableFromASwitchToItselfLeadsNowhere) {
  testing::SubnetBuilder builder;
  const NodeId node = builder.add_switch(8);
  builder.add_hosts(node, 2);
  builder.join({node, PortNumber{5}}, {node, PortNumber{6}});
  builder.join({node, PortNumber{7}}, {node, PortNumber{7}});
  Routed routed{builder.finish()};
  EXPECT_TRUE(routed.graph.links.empty());
  routed.routing = route_up_down(routed.graph);
  EXPECT_THAT(routed.checker().unreachable(), IsEmpty());
}

// Issue: 972 switches and 6,804 LIDs. The bound is loose, for builds without optimisation.
TEST(Routing, LargeTreesAreRoutedQuickly) {
  const Subnet subnet = testing::fat_tree(18, 3);
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const RoutingGraph graph = make_routing_graph(subnet);
  EXPECT_EQ(graph.size(), 972U);
  EXPECT_EQ(graph.destinations.size(), 6804U);
  const auto milliseconds_since = [](Clock::time_point start) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start).count();
  };
  RecordProperty("graph_ms", static_cast<int>(milliseconds_since(begin)));
  for (const RoutingEngine engine : {RoutingEngine::MinHop, RoutingEngine::UpDown,
                                     RoutingEngine::FatTree, RoutingEngine::DeadlockFree}) {
    const auto start = Clock::now();
    const auto routing = route(engine, graph);
    ASSERT_TRUE(routing.has_value());
    const auto taken = milliseconds_since(start);
    RecordProperty(std::string{name_of(engine)}, static_cast<int>(taken));
    std::printf("%s: %d ms\n", std::string{name_of(engine)}.c_str(), static_cast<int>(taken));
    EXPECT_LT(taken, 20'000);
  }
}

}  // namespace
}  // namespace weft::subnet
