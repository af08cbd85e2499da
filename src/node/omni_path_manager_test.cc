#include "node/omni_path_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "fabric/path.h"
#include "fabric/testing/omni_path_star.h"
#include "fabric/walk.h"
#include "node/fabric.h"

namespace weft::node {
namespace {

using fabric::ExtendedLid;
using fabric::PathUse;
using fabric::PortIndex;
using fabric::PortState;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class OmniPathPart : public ::testing::Test {
 protected:
  void make(const fabric::Topology& topology) {
    made_ = std::move(*Fabric::create(topology, now_));
    settle();
  }
  void settle() {
    while (made_->run_management(now_)) {
    }
  }
  [[nodiscard]] const fabric::TablesBuilder& tables() const { return made_->builder(); }
  [[nodiscard]] OmniPathManager& manager() { return made_->management().omni_path(); }
  [[nodiscard]] PortIndex port(std::string_view name) const {
    return made_->find_ports(name)->front();
  }
  [[nodiscard]] ExtendedLid lid(std::string_view name) const {
    return tables().port(port(name)).extended_lid();
  }
  [[nodiscard]] PathUse way(PortIndex from, PortIndex to) const {
    fabric::UnicastWalk<fabric::TablesBuilder> walk{
        tables(), from,
        fabric::LinkAddress{fabric::ExtendedLidPair{tables().port(from).extended_lid(),
                                                    tables().port(to).extended_lid()}},
        fabric::Traffic::Data};
    while (walk.next()) {
    }
    return walk.end().is_delivered() && walk.end().port != to ? PathUse::NotTheOwner
                                                              : walk.end().outcome;
  }
  [[nodiscard]] std::vector<PortIndex> hosts() const {
    std::vector<PortIndex> found;
    for (std::uint32_t i = 0; i < tables().ports().size(); ++i) {
      const fabric::PortRecord& record = tables().port(PortIndex{i});
      if (record.is_omni_path() && !record.is_switch_port() && record.peer != fabric::kNoPort) {
        found.push_back(PortIndex{i});
      }
    }
    return found;
  }
  [[nodiscard]] std::size_t ways_that_fail() const {
    std::size_t failed = 0;
    for (const PortIndex from : hosts()) {
      for (const PortIndex to : hosts()) {
        failed += way(from, to) == PathUse::Delivered ? 0 : 1;
      }
    }
    return failed;
  }
  void plug(std::string_view name, bool is_plugged) {
    ASSERT_TRUE(made_->change_port(port(name), {.is_plugged = is_plugged, .settings = {}}, now_));
    settle();
  }

  Instant now_{Duration::seconds(1)};
  std::unique_ptr<Fabric> made_;
};

TEST_F(OmniPathPart, ComesUpWithLidsBeyond16BitsAndRoutes) {
  for (const char* form :
       {"opa:pair", "opa:star:5", "opa:fat-tree:4", "opa:torus:3x3", "opa:dragonfly:2:1:1"}) {
    make(*fabric::generate(form));
    EXPECT_EQ(lid("h1:1"), OmniPathManager::kFirstLid) << form;
    for (const PortIndex host : hosts()) {
      EXPECT_EQ(tables().port(host).state, PortState::Active) << form;
    }
    EXPECT_GE(hosts().size(), 2U);
    EXPECT_EQ(ways_that_fail(), 0U) << form;
  }
}

TEST_F(OmniPathPart, LeavesTheInfiniBandPartToItsManager) {
  make(fabric::testing::omni_path_beside_infiniband());
  EXPECT_EQ(ways_that_fail(), 0U);
  EXPECT_EQ(hosts().size(), 3U);
  EXPECT_EQ(tables().port(port("h1:1")).lid, Lid{1});
  EXPECT_EQ(tables().port(port("h2:1")).state, PortState::Active);
}

TEST_F(OmniPathPart, ComesUpWithoutASubnetManagerToo) {
  made_ = std::move(*Fabric::create(fabric::testing::omni_path_beside_infiniband(), now_,
                                    {.has_subnet_manager = false}));
  settle();
  EXPECT_EQ(ways_that_fail(), 0U);
  EXPECT_EQ(tables().port(port("h1:1")).state, PortState::Initialize);
}

TEST_F(OmniPathPart, IsRoutedAroundACutCableAndLidsStay) {
  make(*fabric::generate("opa:fat-tree:4"));
  const ExtendedLid before = lid("h5:1");
  plug("s1:3", false);  // to a spine
  EXPECT_EQ(ways_that_fail(), 0U);
  plug("h1:1", false);
  EXPECT_EQ(way(port("h2:1"), port("h1:1")), PathUse::NoRoute);
  EXPECT_EQ(lid("h1:1"), OmniPathManager::kFirstLid);
  plug("h1:1", true);
  EXPECT_EQ(tables().port(port("h1:1")).state, PortState::Active);
  EXPECT_EQ(ways_that_fail(), 0U);
  EXPECT_EQ(lid("h5:1"), before);
}

TEST_F(OmniPathPart, IsNotTouchedWhenNothingChanges) {
  make(*fabric::generate("opa:star:3"));
  EXPECT_FALSE(manager().sweep());
  const std::uint64_t changes = tables().port_changes();
  plug("h1:1", true);  // as it was
  EXPECT_FALSE(manager().sweep());
  EXPECT_EQ(tables().port_changes(), changes);
}

TEST_F(OmniPathPart, GrowsWithTheFabric) {
  auto topology = fabric::testing::omni_path_beside_infiniband();
  topology.switches[0].port_count = 6;
  make(topology);
  NodeChange change = *read_node_change("add host o4 link=os1:4");
  ASSERT_TRUE(made_->change_node(change, now_));
  settle();
  EXPECT_EQ(hosts().size(), 4U);
  EXPECT_EQ(ways_that_fail(), 0U);
  ASSERT_TRUE(made_->change_node(*read_node_change("remove o4"), now_));
  settle();
  EXPECT_EQ(hosts().size(), 3U);
  EXPECT_EQ(ways_that_fail(), 0U);
}

class OmniPathGroups : public OmniPathPart {
 protected:
  static constexpr ExtendedLid kGroup{0xF0'0007};
  [[nodiscard]] std::vector<PortIndex> reached(std::string_view from) const {
    return fabric::resolve_multicast(tables(), port(from), kGroup).members;
  }
};

TEST_F(OmniPathGroups, ReachEachMemberOnce) {
  make(*fabric::generate("opa:fat-tree:4"));
  EXPECT_THAT(reached("h1:1"), IsEmpty());
  for (const char* name : {"h1:1", "h2:1", "h8:1"}) {
    ASSERT_TRUE(manager().join(port(name), kGroup));
  }
  ASSERT_TRUE(manager().join(port("h2:1"), kGroup));  // a second user
  settle();
  EXPECT_THAT(reached("h1:1"), ::testing::UnorderedElementsAre(port("h2:1"), port("h8:1")));
  EXPECT_THAT(reached("h8:1"), ::testing::UnorderedElementsAre(port("h1:1"), port("h2:1")));
  plug("s1:3", false);
  EXPECT_THAT(reached("h8:1"), ::testing::UnorderedElementsAre(port("h1:1"), port("h2:1")));
  manager().leave(port("h2:1"), kGroup);
  settle();
  EXPECT_EQ(reached("h1:1").size(), 2U);  // the other user is there
  manager().leave(port("h2:1"), kGroup);
  manager().leave(port("h3:1"), kGroup);  // which is none
  settle();
  EXPECT_THAT(reached("h1:1"), ElementsAre(port("h8:1")));
}

TEST_F(OmniPathGroups, AreOfOmniPathPortsAndWithinThePolicy) {
  make(fabric::testing::omni_path_beside_infiniband());
  EXPECT_THAT(manager().join(port("h1:1"), kGroup).error().reason, HasSubstr("no Omni-Path port"));
  EXPECT_FALSE(manager().join(port("os1:1"), kGroup));
  EXPECT_THAT(manager().join(port("o1:1"), ExtendedLid{0xF0'1000}).error().reason,
              HasSubstr("not in 0xf00000..0xf00fff"));
  EXPECT_FALSE(manager().join(port("o1:1"), ExtendedLid{0xC001}));
}

}  // namespace
}  // namespace weft::node
