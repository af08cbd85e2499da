// Walks of published tables and of tables under construction find the same paths.

#include "fabric/walk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "fabric/path.h"
#include "fabric/path_end.h"
#include "fabric/testing/running_fabric.h"

namespace weft::fabric {
namespace {

using testing::RunningFabric;

struct Walked {
  std::vector<Hop> hops;
  WalkEnd end;
};

template <class Tables>
Walked walk(const Tables& tables, PortIndex source, Lid dlid, Traffic traffic = Traffic::Data) {
  UnicastWalk<Tables> steps{
      tables, source, LinkAddress{tables.port(source).lid, dlid},
        traffic
  };
  Walked walked;
  while (const auto hop = steps.next()) {
    walked.hops.push_back(*hop);
  }
  walked.end = steps.end();
  return walked;
}

TEST(UnicastWalk, IsThatOfPathsInTablesOfEitherKind) {
  RunningFabric fabric{*generate_fat_tree(4, 2)};
  const TablesView view = fabric.view();
  for (const PortIndex from : fabric.hca_ports()) {
    for (const PortIndex to : fabric.hca_ports()) {
      const Path path = resolve(view, from, view.port(to).lid);
      for (const Walked& walked :
           {walk(view, from, view.port(to).lid), walk(fabric.builder, from, view.port(to).lid)}) {
        EXPECT_EQ(walked.hops, path.hops);
        EXPECT_TRUE(walked.end.is_delivered());
        EXPECT_EQ(walked.end.port, to);
      }
    }
  }
}

TEST(UnicastWalk, EndsWhereASwitchHasNoRoute) {
  RunningFabric fabric{*generate_star(2)};
  const Walked walked = walk(fabric.builder, fabric.port("h1", 1), Lid{77});
  EXPECT_EQ(walked.hops.size(), 1U);
  EXPECT_EQ(walked.end.outcome, PathUse::NoRoute);
  EXPECT_EQ(walked.end.end, PathEnd::DlidMapping);
  EXPECT_EQ(walked.end.port, fabric.port("s1", 1));
  EXPECT_EQ(drop_counter(walked.end.end), DropCounter::RcvSwitchRelayErrors);
}

TEST(UnicastWalk, OfSmpsPassesPortsInInitialize) {  // IBTA vol 1 §7.2.7
  RunningFabric fabric{*generate_star(2)};
  const PortIndex h1 = fabric.port("h1", 1);
  const Lid h2 = fabric.lid("h2");
  fabric.builder.set_link_state(fabric.port("h2", 1), PortState::Initialize);
  EXPECT_EQ(walk(fabric.builder, h1, h2).end.outcome, PathUse::LinkDown);
  EXPECT_EQ(walk(fabric.builder, h1, h2).end.port, fabric.port("s1", 2));
  EXPECT_TRUE(walk(fabric.builder, h1, h2, Traffic::SubnetManagement).end.is_delivered());
  fabric.builder.set_link_state(fabric.port("h2", 1), PortState::Down);
  EXPECT_EQ(walk(fabric.builder, h1, h2, Traffic::SubnetManagement).end.outcome, PathUse::LinkDown);
}

TEST(UnicastWalk, OfAnSmpToThePermissiveLidEndsAtTheNeighbour) {  // IBTA vol 1 §4.1.3
  RunningFabric fabric{*generate_star(2)};
  const PortIndex h1 = fabric.port("h1", 1);
  const Walked smp = walk(fabric.builder, h1, kPermissiveLid, Traffic::SubnetManagement);
  EXPECT_TRUE(smp.end.is_delivered());
  EXPECT_EQ(smp.end.port, fabric.port("s1", 1));
  EXPECT_EQ(walk(fabric.builder, h1, kPermissiveLid).end.outcome, PathUse::InvalidDlid);
}

TEST(UnicastWalk, EndsWhereTheTablesLeadInACircle) {
  RunningFabric fabric{*generate_fat_tree(4, 2)};
  for (const NodeRecord& node : fabric.builder.nodes()) {
    if (node.kind == NodeKind::Switch) {
      fabric.builder.set_forwarding(fabric.builder.port(node.first_port).node, Lid{99},
                                    PortNumber{3});
    }
  }
  const Walked walked = walk(fabric.builder, fabric.port("h1", 1), Lid{99});
  EXPECT_EQ(walked.end.outcome, PathUse::Loop);
  EXPECT_LE(walked.hops.size(), kMaxHops);
}

TEST(UnicastWalk, TakesNoLinkOfAnotherType) {
  RunningFabric fabric{generate_pair()};
  const PortIndex h1 = fabric.port("h1", 1);
  UnicastWalk<TablesBuilder> steps{fabric.builder, h1, LinkAddress{MacAddressPair{}},
                                   Traffic::Data};
  EXPECT_FALSE(steps.next());
  EXPECT_EQ(steps.end().outcome, PathUse::LinkDown);
  EXPECT_EQ(steps.end().port, h1);
}

TEST(MulticastWalk, IsThatOfTreesInTablesOfEitherKind) {
  RunningFabric fabric{*generate_fat_tree(4, 2)};
  const Lid mlid{0xC005};
  for (const char* host : {"h1", "h3", "h6"}) {
    ASSERT_TRUE(fabric.manager.join(mlid, fabric.port(host, 1)));
  }
  fabric.publish();
  const PortIndex from = fabric.port("h1", 1);
  const MulticastTree published = resolve_multicast(fabric.view(), from, mlid);
  const MulticastTree current = resolve_multicast(fabric.builder, from, mlid);
  EXPECT_EQ(published.edges, current.edges);
  EXPECT_EQ(published.members, current.members);
  EXPECT_EQ(published.members.size(), 2U);
  const TablesView view = fabric.view();
  MulticastWalk<TablesView> steps{view, from, WalkLid{mlid}};
  std::vector<Hop> hops;
  while (const auto branch = steps.next()) {
    hops.push_back(branch->hop);
    EXPECT_TRUE(branch->parent == kNoIndex || branch->parent < hops.size());
  }
  EXPECT_EQ(hops, published.edges);
}

TEST(MulticastWalk, NamesTheBranchesThatNoLinkCarries) {
  RunningFabric fabric{*generate_star(3)};
  fabric.builder.set_link_state(fabric.port("h3", 1), PortState::Down);
  MulticastWalk<TablesBuilder> steps{fabric.builder, fabric.port("h1", 1), WalkLid{kBroadcastMlid}};
  std::vector<Hop> dropped;
  while (const auto branch = steps.next()) {
    if (branch->hop.ingress == kNoPort) {
      dropped.push_back(branch->hop);
    }
  }
  EXPECT_EQ(dropped, (std::vector<Hop>{
                         {fabric.port("s1", 3), kNoPort}
  }));
  EXPECT_EQ(steps.members(), std::vector{fabric.port("h2", 1)});
}

}  // namespace
}  // namespace weft::fabric
