// Tables and walks by Omni-Path's LIDs of 24 bits.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "fabric/path.h"
#include "fabric/tables.h"
#include "fabric/testing/omni_path_star.h"
#include "fabric/walk.h"

namespace weft::fabric {
namespace {

struct Walked {
  std::vector<Hop> hops;
  WalkEnd end;
};

/// Both parts of a fabric, each with its own LIDs.
class OmniPathWalk : public ::testing::Test {
 protected:
  OmniPathWalk() {
    testing::bring_up_omni_path(builder);
    image = builder.build(1);
  }
  [[nodiscard]] PortIndex port(std::string_view node, std::uint8_t number = 1) const {
    const NodeRecord& record = builder.node(*builder.find_node(node));
    return PortIndex{record.first_port.value() + number -
                     (record.kind == NodeKind::Host ? 1U : 0U)};
  }
  template <class Tables>
  [[nodiscard]] static Walked walk_to(const Tables& tables, PortIndex source, ExtendedLid dlid) {
    UnicastWalk<Tables> steps{
        tables, source, LinkAddress{ExtendedLidPair{tables.port(source).extended_lid(), dlid}},
        Traffic::Data};
    Walked walked;
    while (const auto hop = steps.next()) {
      walked.hops.push_back(*hop);
    }
    walked.end = steps.end();
    return walked;
  }
  [[nodiscard]] TablesView view() const { return *TablesView::open(image); }

  TablesBuilder builder{testing::omni_path_beside_infiniband()};
  std::vector<std::byte> image;
};

TEST_F(OmniPathWalk, FollowsTheTablesOf24BitLids) {
  for (const Walked& walked : {walk_to(builder, port("o1"), testing::omni_path_lid(2)),
                               walk_to(view(), port("o1"), testing::omni_path_lid(2))}) {
    EXPECT_TRUE(walked.end.is_delivered());
    EXPECT_EQ(walked.end.port, port("o2"));
    EXPECT_EQ(walked.hops, (std::vector{
                               Hop{port("o1"), port("os1", 1)        },
                               Hop{port("os1", 2),         port("o2")}
    }));
  }
  EXPECT_EQ(walk_to(builder, port("o1"), testing::omni_path_lid(9)).end.port, port("os1", 0));
  EXPECT_EQ(walk_to(builder, port("o1"), testing::omni_path_lid(1)).end.port, port("o1"));
}

TEST_F(OmniPathWalk, KnowsNoOtherDlids) {
  for (const std::uint32_t dlid : {0x12'3404U, 0x12'33FFU, 0x3401U, 0x12'34FFU}) {
    EXPECT_EQ(walk_to(builder, port("o1"), ExtendedLid{dlid}).end.outcome, PathUse::NoRoute);
    EXPECT_EQ(walk_to(view(), port("o1"), ExtendedLid{dlid}).end.outcome, PathUse::NoRoute);
  }
  EXPECT_EQ(walk_to(builder, port("o1"), testing::kOmniPathGroup).end.outcome,
            PathUse::InvalidDlid);
  builder.set_forwarding(*builder.find_node("os1"), ExtendedLid{0x12'3304}, PortNumber{3});
  EXPECT_EQ(walk_to(builder, port("o1"), ExtendedLid{0x12'3304}).end.outcome, PathUse::NotTheOwner);
  EXPECT_TRUE(walk_to(builder, port("o1"), testing::omni_path_lid(3)).end.is_delivered());
}

TEST_F(OmniPathWalk, OfInfiniBandPacketsGoesNowhere) {
  for (const std::uint32_t lid : {2U, testing::omni_path_lid(2).value()}) {
    UnicastWalk<TablesBuilder> walk{
        builder, port("o1"), LinkAddress{Lid{1}, Lid{lid}},
          Traffic::Data
    };
    EXPECT_FALSE(walk.next());
    EXPECT_EQ(walk.end().outcome, PathUse::LinkDown);
  }
  builder.set_link_state(port("h1"), PortState::Active);
  const Walked other = walk_to(builder, port("h1"), testing::omni_path_lid(2));
  EXPECT_EQ(other.end.outcome, PathUse::LinkDown);
}

TEST_F(OmniPathWalk, OfAGroupReachesItsMembers) {
  const MulticastTree tree = resolve_multicast(builder, port("o1"), testing::kOmniPathGroup);
  EXPECT_EQ(tree.members, (std::vector{port("o2"), port("o3")}));
  EXPECT_EQ(tree.edges.size(), 3U);
  EXPECT_TRUE(resolve_multicast(builder, port("o1"), ExtendedLid{0xF0'0003}).members.empty());
  EXPECT_EQ(resolve_multicast(builder, port("o1"), Lid{0xC002}).outcome, PathUse::LinkDown);
}

TEST_F(OmniPathWalk, LidsAreNotThoseOfInfiniBand) {
  builder.set_lid(port("h1"), Lid{1}, 0);
  builder.set_lid(port("o1"), ExtendedLid{1});
  image = builder.build(2);
  EXPECT_EQ(view().owner_of(Lid{1}), port("h1"));
  EXPECT_FALSE(builder.port(port("o1")).owns(Lid{1}));
  EXPECT_TRUE(builder.port(port("o1")).owns(ExtendedLid{1}));
  EXPECT_FALSE(builder.port(port("h1")).owns(ExtendedLid{1}));
  EXPECT_FALSE(builder.port(port("o2")).owns(ExtendedLid{}));
}

}  // namespace
}  // namespace weft::fabric
