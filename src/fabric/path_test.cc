#include "fabric/path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "fabric/testing/running_fabric.h"
#include "verbs/mtu.h"

namespace weft::fabric {
namespace {

using testing::RunningFabric;

Topology generated(std::string_view description) {
  auto topology = generate(description);
  EXPECT_TRUE(topology) << topology.error().reason;
  return *topology;
}

/// Every hop is a cable of the tables that starts where the previous one ended, and the sums are
/// those of the cables.
void expect_consistent(const TablesView& view, const Path& path) {
  NodeIndex at = view.port(path.source).node;
  Duration delay;
  for (const Hop& hop : path.hops) {
    ASSERT_EQ(view.port(hop.egress).node, at);
    ASSERT_EQ(view.port(hop.egress).peer, hop.ingress);
    at = view.port(hop.ingress).node;
    delay = delay + view.port(hop.egress).delay();
  }
  EXPECT_EQ(path.delay, delay);
  if (path.is_delivered()) {
    EXPECT_EQ(view.port(path.destination).node, at);
  }
}

class EveryTopology : public ::testing::TestWithParam<const char*> {};

TEST_P(EveryTopology, EveryPortReachesEveryLidAndTheWayBackIsAsLong) {
  const RunningFabric fabric{generated(GetParam())};
  const TablesView view = fabric.view();
  const std::vector<PortIndex> ports = fabric.hca_ports();
  for (const PortIndex source : ports) {
    for (const PortIndex destination : ports) {
      const Path path = resolve(view, source, view.port(destination).lid);
      ASSERT_TRUE(path.is_delivered()) << describe(view, path);
      ASSERT_EQ(path.destination, destination);
      expect_consistent(view, path);
      const Path back = resolve(view, destination, view.port(source).lid);
      ASSERT_EQ(back.hops.size(), path.hops.size());
      ASSERT_EQ(path.hops.empty(), source == destination);
    }
  }
}

TEST_P(EveryTopology, EverySwitchIsReachedAtItsPortZeroAndAnswers) {
  const RunningFabric fabric{generated(GetParam())};
  const TablesView view = fabric.view();
  const PortIndex host = fabric.hca_ports().front();
  for (const NodeRecord& node : view.nodes()) {
    if (node.kind != NodeKind::Switch) {
      continue;
    }
    const Path path = resolve(view, host, view.port(node.first_port).lid);
    ASSERT_TRUE(path.is_delivered()) << describe(view, path);
    EXPECT_EQ(path.destination, node.first_port);
    const Path back = resolve(view, node.first_port, view.port(host).lid);
    EXPECT_EQ(back.destination, host);
    EXPECT_EQ(back.hops.size(), path.hops.size());
  }
}

TEST_P(EveryTopology, BroadcastReachesAllOthersOnceWithoutCrossingACableTwice) {
  const RunningFabric fabric{generated(GetParam())};
  const TablesView view = fabric.view();
  const std::vector<PortIndex> ports = fabric.hca_ports();
  for (const PortIndex source : ports) {
    const MulticastTree tree = resolve_multicast(view, source, kBroadcastMlid);
    ASSERT_EQ(tree.outcome, PathUse::Delivered);
    std::vector<PortIndex> expected = ports;
    std::erase(expected, source);
    std::vector<PortIndex> reached = tree.members;
    std::ranges::sort(reached);
    ASSERT_EQ(reached, expected);
    std::set<std::pair<PortIndex, PortIndex>> cables;
    for (const Hop& edge : tree.edges) {
      ASSERT_TRUE(cables.insert(std::minmax(edge.egress, edge.ingress)).second);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Topologies, EveryTopology,
                         ::testing::Values("pair", "star:2", "star:17", "fat-tree:2:2",
                                           "fat-tree:4:2", "fat-tree:8:2", "fat-tree:2:3",
                                           "fat-tree:4:3", "fat-tree:6:3"));

TEST(Path, InAFatTreeIsAsLongAsItsCommonAncestorIsHigh) {
  const RunningFabric fabric{generated("fat-tree:4:3")};
  const TablesView view = fabric.view();
  const auto links = [&](const char* from, const char* to) {
    return resolve(view, fabric.port(from, 1), fabric.lid(to)).hops.size();
  };
  EXPECT_EQ(links("h1", "h2"), 2U);   // same leaf
  EXPECT_EQ(links("h1", "h3"), 4U);   // same pod
  EXPECT_EQ(links("h1", "h16"), 6U);  // over a core switch
}

TEST(Path, SpreadsTheHostsBehindALeafEvenlyOverAllSpinesAndCores) {
  const RunningFabric fabric{generated("fat-tree:6:3")};
  const TablesView view = fabric.view();
  std::map<NodeIndex, int> by_core;
  for (int host = 28; host <= 54; ++host) {  // the other half of the hosts, seen from h1
    const Path path = resolve(view, fabric.port("h1", 1), fabric.lid("h" + std::to_string(host)));
    ASSERT_EQ(path.hops.size(), 6U);
    ++by_core[view.port(path.hops[2].ingress).node];
  }
  EXPECT_EQ(by_core.size(), 9U);  // all k^2/4 cores
  for (const auto& [core, hosts] : by_core) {
    EXPECT_EQ(hosts, 3);
  }
}

TEST(Path, LoopsBackInsideThePortThatOwnsTheLid) {
  const RunningFabric fabric{generated("pair")};
  const Path path = resolve(fabric.view(), fabric.port("h1", 1), fabric.lid("h1"));
  EXPECT_TRUE(path.is_delivered());
  EXPECT_EQ(path.destination, path.source);
  EXPECT_TRUE(path.hops.empty());
}

TEST(Path, BetweenTwoPortsOfOneHostCrossesTheCables) {
  const RunningFabric fabric{testing::many_ports()};
  const TablesView view = fabric.view();
  for (const auto& [number, hca] : {
           std::pair{2, 0U},
           {1, 1U},
           {2, 1U}
  }) {
    const Path path = resolve(view, fabric.port("h1", 1), fabric.lid("h1", number, hca));
    EXPECT_EQ(path.destination, fabric.port("h1", number, hca));
    EXPECT_EQ(path.hops.size(), 2U);
  }
}

TEST(Path, EveryLidOfAnLmcRangeReachesThePort) {
  const RunningFabric fabric{testing::many_ports()};
  const Lid base = fabric.lid("h2");
  EXPECT_EQ(base.value() % 4, 0U);
  for (std::uint32_t bits = 0; bits < 4; ++bits) {
    const Path path = resolve(fabric.view(), fabric.port("h1", 1), Lid{base.value() + bits});
    EXPECT_EQ(path.destination, fabric.port("h2", 1));
  }
  EXPECT_EQ(fabric.view().owner_of(Lid{base.value() + 3}), fabric.port("h2", 1));
}

TEST(Path, LmcAlternativesTakeDifferentSpines) {
  Topology topology = generated("fat-tree:4:2");
  topology.hosts[7].hcas[0].ports[0].lmc = 1;
  const RunningFabric fabric{topology};
  const Lid base = fabric.lid("h8");
  const Path one = resolve(fabric.view(), fabric.port("h1", 1), base);
  const Path other = resolve(fabric.view(), fabric.port("h1", 1), Lid{base.value() + 1});
  ASSERT_TRUE(one.is_delivered() && other.is_delivered());
  EXPECT_NE(one.hops[1].ingress, other.hops[1].ingress);
}

TEST(Path, ToALidThatIsNotUnicastEndsAtTheFirstPortThatReceivesIt) {
  const RunningFabric fabric{generated("star:3")};
  const RunningFabric pair{generated("pair")};
  for (const Lid lid : {Lid{0}, kPermissiveLid, kBroadcastMlid, Lid{0x1'0000}}) {
    const Path path = resolve(fabric.view(), fabric.port("h1", 1), lid);
    EXPECT_EQ(path.outcome, PathUse::InvalidDlid) << lid.value();
    EXPECT_EQ(path.end, PathEnd::DlidMapping);
    EXPECT_EQ(path.stopped_at, fabric.port("s1", 1));
    const Path direct = resolve(pair.view(), pair.port("h1", 1), lid);
    EXPECT_EQ(direct.outcome, PathUse::InvalidDlid) << lid.value();
    EXPECT_EQ(direct.end, PathEnd::Malformed);
    EXPECT_EQ(direct.stopped_at, pair.port("h2", 1));
  }
}

TEST(Path, WithoutAForwardingEntryEndsAsARelayErrorOfTheIngressPort) {
  const RunningFabric fabric{generated("star:3")};
  const Path path = resolve(fabric.view(), fabric.port("h2", 1), Lid{999});
  EXPECT_EQ(path.outcome, PathUse::NoRoute);
  EXPECT_EQ(path.end, PathEnd::DlidMapping);
  EXPECT_EQ(path.stopped_at, fabric.port("s1", 2));
  EXPECT_EQ(path.hops.size(), 1U);
}

TEST(Path, BackToBackToAnUnknownLidEndsAtThePeer) {
  const RunningFabric fabric{generated("pair")};
  const Path path = resolve(fabric.view(), fabric.port("h1", 1), Lid{999});
  EXPECT_EQ(path.outcome, PathUse::NotTheOwner);
  EXPECT_EQ(path.end, PathEnd::Malformed);
  EXPECT_EQ(path.stopped_at, fabric.port("h2", 1));
}

TEST(Path, OverALinkThatIsDownEndsAsADiscardOfTheEgressPort) {
  RunningFabric fabric{generated("star:3")};
  fabric.builder.set_link_state(fabric.port("h3", 1), PortState::Down);
  fabric.publish();
  const Path path = resolve(fabric.view(), fabric.port("h1", 1), fabric.lid("h3"));
  EXPECT_EQ(path.outcome, PathUse::LinkDown);
  EXPECT_EQ(path.end, PathEnd::PortInactive);
  EXPECT_EQ(path.stopped_at, fabric.port("s1", 3));
  EXPECT_EQ(resolve(fabric.view(), fabric.port("h3", 1), fabric.lid("h1")).outcome,
            PathUse::SourceDown);
}

TEST(Path, AnArmedPortReceivesButDoesNotSend) {  // IBTA vol 1 §14.2.5.6
  RunningFabric fabric{generated("pair")};
  fabric.builder.set_state(fabric.port("h2", 1), PortState::Armed);
  fabric.publish();
  EXPECT_TRUE(resolve(fabric.view(), fabric.port("h1", 1), fabric.lid("h2")).is_delivered());
  EXPECT_EQ(resolve(fabric.view(), fabric.port("h2", 1), fabric.lid("h1")).outcome,
            PathUse::SourceDown);
}

TEST(Path, ThatRunsInCirclesEnds) {
  RunningFabric fabric{generated("fat-tree:6:2")};
  const Lid lost{500};
  // s1 -> s7 -> s2 -> s8 -> s1: leaves 1 and 2, spines 7 and 8
  fabric.builder.set_forwarding(fabric.node("s1"), lost, PortNumber{4});
  fabric.builder.set_forwarding(fabric.node("s7"), lost, PortNumber{2});
  fabric.builder.set_forwarding(fabric.node("s2"), lost, PortNumber{5});
  fabric.builder.set_forwarding(fabric.node("s8"), lost, PortNumber{1});
  fabric.publish();
  const Path path = resolve(fabric.view(), fabric.port("h1", 1), lost);
  EXPECT_EQ(path.outcome, PathUse::Loop);
  EXPECT_EQ(path.end, PathEnd::LifetimeLimit);
  EXPECT_EQ(path.hops.size(), kMaxHops);
  expect_consistent(fabric.view(), path);
}

TEST(Path, BackOutOfTheIngressPortIsALoop) {
  RunningFabric fabric{generated("star:3")};
  fabric.builder.set_forwarding(fabric.node("s1"), Lid{500}, PortNumber{1});
  fabric.publish();
  const Path path = resolve(fabric.view(), fabric.port("h1", 1), Lid{500});
  EXPECT_EQ(path.outcome, PathUse::Loop);
  EXPECT_EQ(path.end, PathEnd::Looping);
}

TEST(Path, TellsSmallestMtuSlowestRateWholeDelayAndTaps) {
  Topology topology = generated("star:3");
  topology.links[0].rate_gbps = 100;
  topology.links[0].delay = Duration::nanoseconds(300);
  topology.links[1].rate_gbps = 25;
  topology.links[1].delay = Duration::nanoseconds(40);
  topology.hosts[1].hcas[0].ports[0].max_mtu = verbs::Mtu::Mtu1024;
  RunningFabric fabric{topology};
  Path path = resolve(fabric.view(), fabric.port("h1", 1), fabric.lid("h2"));
  EXPECT_EQ(path.mtu, verbs::Mtu::Mtu1024);
  EXPECT_EQ(path.rate_mbps, 25'000U);
  EXPECT_EQ(path.delay, Duration::nanoseconds(340));
  EXPECT_FALSE(path.is_tapped);
  EXPECT_EQ(resolve(fabric.view(), fabric.port("h1", 1), fabric.lid("h3")).mtu,
            verbs::Mtu::Mtu4096);
  fabric.builder.set_tapped(fabric.port("s1", 2), true);
  fabric.publish();
  path = resolve(fabric.view(), fabric.port("h1", 1), fabric.lid("h2"));
  EXPECT_TRUE(path.is_tapped);
  EXPECT_FALSE(resolve(fabric.view(), fabric.port("h1", 1), fabric.lid("h3")).is_tapped);
  EXPECT_EQ(path.generation, fabric.view().generation());
}

TEST(Path, DiscardedAtAHopEndsAtItsEgressPort) {
  const RunningFabric fabric{generated("fat-tree:4:2")};
  const Path path = resolve(fabric.view(), fabric.port("h1", 1), fabric.lid("h8"));
  const Path shorter = discarded_at(path, 2);
  EXPECT_EQ(shorter.hops.size(), 2U);
  EXPECT_EQ(shorter.stopped_at, path.hops[2].egress);
  EXPECT_EQ(shorter.end, PathEnd::PortInactive);
}

TEST(Multicast, ReachesExactlyTheMembersWithoutTheSender) {
  RunningFabric fabric{generated("fat-tree:4:3")};
  const Lid group{0xC001};
  std::set<PortIndex> members;
  for (const char* name : {"h1", "h2", "h7", "h16"}) {
    members.insert(fabric.port(name, 1));
    ASSERT_TRUE(fabric.manager.join(group, fabric.port(name, 1)));
  }
  fabric.publish();
  for (const PortIndex source : fabric.hca_ports()) {  // members or not
    const MulticastTree tree = resolve_multicast(fabric.view(), source, group);
    std::set<PortIndex> expected = members;
    expected.erase(source);
    EXPECT_EQ(std::set(tree.members.begin(), tree.members.end()), expected);
    EXPECT_EQ(tree.members.size(), expected.size());
  }
  ASSERT_TRUE(fabric.manager.leave(group, fabric.port("h7", 1)));
  fabric.publish();
  const MulticastTree tree = resolve_multicast(fabric.view(), fabric.port("h1", 1), group);
  EXPECT_THAT(tree.members,
              ::testing::UnorderedElementsAre(fabric.port("h2", 1), fabric.port("h16", 1)));
}

TEST(Multicast, OnTablesWithALoopStillEnds) {
  RunningFabric fabric{generated("fat-tree:4:2")};
  const Lid group{0xC002};
  for (const NodeRecord& node : fabric.builder.nodes()) {
    if (node.kind != NodeKind::Switch) {
      continue;
    }
    const PortRecord& management = fabric.builder.port(node.first_port);
    for (std::uint8_t number = 1; number < node.port_count; ++number) {
      fabric.builder.set_multicast(management.node, group, PortNumber{number}, true);
    }
  }
  fabric.publish();
  const MulticastTree tree = resolve_multicast(fabric.view(), fabric.port("h1", 1), group);
  EXPECT_EQ(tree.members.size(), 7U);
  EXPECT_LE(tree.edges.size(), fabric.view().ports().size());
}

TEST(Multicast, TellsThePortsWhereBranchesAreLost) {
  RunningFabric fabric{generated("star:3")};
  fabric.builder.set_link_state(fabric.port("h3", 1), PortState::Down);
  fabric.publish();
  const MulticastTree tree = resolve_multicast(fabric.view(), fabric.port("h1", 1), kBroadcastMlid);
  EXPECT_THAT(tree.members, ::testing::ElementsAre(fabric.port("h2", 1)));
  EXPECT_THAT(tree.dropped_at, ::testing::ElementsAre(fabric.port("s1", 3)));
}

TEST(Multicast, RefusesAUnicastLid) {
  const RunningFabric fabric{generated("star:3")};
  EXPECT_EQ(resolve_multicast(fabric.view(), fabric.port("h1", 1), Lid{2}).outcome,
            PathUse::InvalidDlid);
}

}  // namespace
}  // namespace weft::fabric
