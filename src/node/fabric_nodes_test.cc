// Adding and removing nodes at run time, which the subnet manager learns by traps.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fabric/path.h"
#include "fabric/testing/omni_path_star.h"
#include "node/fabric.h"

namespace weft::node {
namespace {

using fabric::PathUse;
using fabric::PortIndex;
using fabric::PortState;
using ::testing::HasSubstr;

class ChangingFabric : public ::testing::Test {
 protected:
  void make(const fabric::Topology& topology) {
    made_ = std::move(*Fabric::create(topology, now_));
  }
  Fabric& fabric() { return *made_; }

  /// The reason of a refusal, or nothing.
  std::string change(std::string_view text) {
    const auto read = read_node_change(text);
    EXPECT_TRUE(read) << text;
    const auto changed = fabric().change_node(*read, now_);
    settle();
    return changed ? "" : changed.error().reason;
  }
  void settle() {
    const Instant end = now_ + Duration::seconds(3);
    while (now_ < end) {
      while (fabric().run_management(now_)) {
      }
      now_ =
          std::min(end, std::max(fabric().management_deadline(), now_ + Duration::nanoseconds(1)));
    }
  }
  PortIndex port(std::string_view node, int number) {
    const auto found = fabric().builder().find_node(node);
    EXPECT_TRUE(found) << node;
    const fabric::NodeRecord& record = fabric().builder().node(*found);
    const int first = record.kind == fabric::NodeKind::Host ? 1 : 0;
    return PortIndex{record.first_port.value() + static_cast<std::uint32_t>(number - first)};
  }
  PathUse way(std::string_view from, std::string_view to) {
    const std::vector<std::byte> image = fabric().next_tables();
    const auto view = fabric::TablesView::open(image);
    EXPECT_TRUE(view);
    return fabric::resolve(*view, port(from, 1), view->port(port(to, 1)).lid).outcome;
  }

  Instant now_{Duration::seconds(1)};
  std::unique_ptr<Fabric> made_;
};

/// Two hosts on a switch that has room for more.
[[nodiscard]] fabric::Topology roomy_star() {
  fabric::Topology topology = *fabric::generate_star(2);
  topology.switches.front().port_count = 8;
  return topology;
}

TEST_F(ChangingFabric, AHostIsFoundAndReached) {
  make(roomy_star());
  const PortIndex h2 = port("h2", 1);
  const Lid lid = fabric().builder().port(h2).lid;
  EXPECT_EQ(change("add host h9 link=s1:7"), "");
  EXPECT_EQ(fabric().builder().port(port("h9", 1)).state, PortState::Active);
  EXPECT_EQ(way("h1", "h9"), PathUse::Delivered);
  EXPECT_EQ(way("h9", "h2"), PathUse::Delivered);
  EXPECT_EQ(port("h2", 1), h2);  // indices and LIDs of the others stay
  EXPECT_EQ(fabric().builder().port(h2).lid, lid);
  EXPECT_TRUE(fabric().attach("h9", now_));
  EXPECT_TRUE(fabric().find_ports("h9:1"));
}

TEST_F(ChangingFabric, ASwitchIsFoundWithWhatComesBehindIt) {
  make(roomy_star());
  EXPECT_EQ(change("add switch s5 ports=8 link=s1:8 link=s1:7"), "");
  EXPECT_EQ(change("add host h10 link=s5:3"), "");
  EXPECT_EQ(way("h10", "h1"), PathUse::Delivered);
  EXPECT_EQ(way("h2", "h10"), PathUse::Delivered);
  EXPECT_EQ(change("remove s5"), "");
  EXPECT_NE(way("h2", "h10"), PathUse::Delivered);
  EXPECT_EQ(way("h2", "h1"), PathUse::Delivered);
}

TEST_F(ChangingFabric, AHostComesBackUnderItsName) {
  make(roomy_star());
  EXPECT_EQ(change("remove h2"), "");
  EXPECT_FALSE(fabric().builder().find_node("h2"));
  EXPECT_FALSE(fabric().attach("h2", now_));
  EXPECT_FALSE(fabric().find_ports("h2"));
  EXPECT_EQ(fabric().builder().port(port("s1", 2)).state, PortState::Down);
  EXPECT_EQ(change("add host h2 link=s1:2"), "");
  EXPECT_EQ(way("h1", "h2"), PathUse::Delivered);
  EXPECT_TRUE(fabric().attach("h2", now_));
}

TEST_F(ChangingFabric, AnotherHostManagesWhenTheManagersIsRemoved) {
  make(*fabric::generate_fat_tree(4, 2));
  ASSERT_TRUE(fabric().is_managed_from(port("h1", 1)));
  EXPECT_EQ(change("remove h1"), "");
  EXPECT_TRUE(fabric().is_managed_from(port("h2", 1)));
  EXPECT_EQ(change("add host h9 link=s1:1"), "");
  EXPECT_EQ(way("h8", "h9"), PathUse::Delivered);
  EXPECT_EQ(way("h9", "h2"), PathUse::Delivered);
}

TEST_F(ChangingFabric, ASpineThatIsRemovedIsRoutedAround) {
  make(*fabric::generate_fat_tree(4, 2));
  EXPECT_EQ(change("remove s5"), "");
  EXPECT_EQ(way("h1", "h8"), PathUse::Delivered);
  EXPECT_EQ(way("h8", "h1"), PathUse::Delivered);
}

TEST_F(ChangingFabric, SaysWhatWouldWork) {
  make(roomy_star());
  EXPECT_THAT(change("add host h2 link=s1:7"), HasSubstr("has a node h2 already"));
  EXPECT_THAT(change("add host h9 link=s1:2"), HasSubstr("its cable leads to h2"));
  EXPECT_THAT(change("add host h9 link=s1:9"), HasSubstr("s1 has ports 1 to 8"));
  EXPECT_THAT(change("add host h9 link=s1:0"), HasSubstr("s1 has ports 1 to 8"));
  EXPECT_THAT(change("add host h9 link=s3:1"), HasSubstr("no such node"));
  EXPECT_THAT(change("add switch s3 ports=4 link=s1:7 link=s1:7"), HasSubstr("named twice"));
  EXPECT_THAT(change("add host h:9 link=s1:7"), HasSubstr("h:9"));
  EXPECT_THAT(change("remove h7"), HasSubstr("no node h7"));
  const auto process = fabric().attach("h2", now_);
  EXPECT_THAT(change("remove h2"), HasSubstr("1 programs run on h2; --force"));
  EXPECT_EQ(change("remove h2 force"), "");
  static_cast<void>(fabric().detach(*process, now_));
  EXPECT_THAT(change("remove h1"), HasSubstr("the only host"));
}

TEST_F(ChangingFabric, RulesOnACableThatIsGoneEndQuietly) {
  make(roomy_star());
  fabric::FaultDescription down;
  down.kind = fabric::FaultKind::Down;
  down.port = "h2";
  ASSERT_TRUE(fabric().add_fault(down, now_));
  EXPECT_EQ(change("remove h2"), "");
  EXPECT_EQ(change("add host h2 link=s1:2"), "");
  fabric().faults().remove_all(now_);
  settle();
  EXPECT_EQ(way("h1", "h2"), PathUse::Delivered);
}

TEST_F(ChangingFabric, GivesANewNodeTheTypeOfItsLinks) {
  auto topology = fabric::testing::omni_path_beside_infiniband();
  topology.switches[0].port_count = topology.switches[1].port_count = 6;
  make(topology);
  EXPECT_EQ(change("add host o4 link=os1:4"), "");
  EXPECT_TRUE(fabric().builder().port(port("o4", 1)).is_omni_path());
  EXPECT_EQ(change("add host h3 link=s1:4"), "");
  EXPECT_FALSE(fabric().builder().port(port("h3", 1)).is_omni_path());
  EXPECT_THAT(change("add switch s9 ports=4 link=os1:5 link=s1:5"), HasSubstr("of one type"));
  EXPECT_FALSE(fabric().builder().find_node("s9"));
}

}  // namespace
}  // namespace weft::node
