#include "subnet/sa/groups.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace weft::subnet {
namespace {

using wire::JoinState;

constexpr Guid kA{1};
constexpr Guid kB{2};
constexpr Guid kC{3};

[[nodiscard]] Gid mgid(std::uint64_t number) { return Gid{0xFF12'0000'0000'0000, Guid{number}}; }

class Groups : public ::testing::Test {
 protected:
  void create(std::uint64_t number, Lid mlid, PKey pkey = kDefaultPKey, bool is_permanent = false) {
    groups.create({.mgid = mgid(number), .mlid = mlid, .pkey = pkey}, is_permanent);
  }
  void join(std::uint64_t number, Guid port, Flags<JoinState> state, Guid requesting_port = {}) {
    groups.join(mgid(number), port, {.join_state = state, .requesting_port = requesting_port});
  }
  SaGroups groups{
      {.mlids = 4, .groups = 6, .memberships_per_requester = 2}
  };
};

TEST_F(Groups, TakeTheLowestMlidThatIsFree) {
  EXPECT_EQ(groups.free_mlid(), Lid{0xC000});
  create(1, Lid{0xC000});
  create(2, Lid{0xC002});
  EXPECT_EQ(groups.free_mlid(), Lid{0xC001});
  create(3, Lid{0xC001});
  create(4, Lid{0xC003});
  EXPECT_EQ(groups.free_mlid(), std::nullopt);
  EXPECT_TRUE(groups.has_room());
}

TEST_F(Groups, ShareAnMlidOnlyInAPartition) {
  create(1, Lid{0xC001});
  EXPECT_TRUE(groups.may_use(Lid{0xC001}, PKey{0x7FFF}));
  EXPECT_FALSE(groups.may_use(Lid{0xC001}, PKey{0x8001}));
  EXPECT_TRUE(groups.may_use(Lid{0xC003}, PKey{0x8001}));
  EXPECT_FALSE(groups.may_use(Lid{0xC004}, kDefaultPKey)) << "beyond the switches' tables";
  EXPECT_FALSE(groups.may_use(Lid{1}, kDefaultPKey));
  EXPECT_FALSE(groups.may_use(Lid{0xFFFF}, kDefaultPKey));
}

TEST_F(Groups, AddJoinStatesUpAndTakeThemAway) {
  create(1, Lid{0xC000});
  join(1, kA, JoinState::FullMember);
  join(1, kA, JoinState::SendOnlyNonMember);
  EXPECT_EQ(groups.find(mgid(1))->members.at(kA).join_state,
            Flags{JoinState::FullMember} | JoinState::SendOnlyNonMember);
  join(1, kB, JoinState::FullMember);
  EXPECT_FALSE(groups.leave(mgid(1), kA, JoinState::FullMember));
  EXPECT_EQ(groups.find(mgid(1))->members.at(kA).join_state, Flags{JoinState::SendOnlyNonMember});
}

TEST_F(Groups, GoWithTheirLastFullMember) {  // §10.5.2
  create(1, Lid{0xC000});
  join(1, kA, JoinState::FullMember);
  join(1, kB, JoinState::NonMember);
  (void)groups.take_changed_mlids();
  EXPECT_TRUE(groups.leave(mgid(1), kA, JoinState::FullMember));
  EXPECT_EQ(groups.find(mgid(1)), nullptr);
  EXPECT_EQ(groups.take_changed_mlids(), std::set{Lid{0xC000}});
  EXPECT_TRUE(groups.tree_members(Lid{0xC000}).empty());
  EXPECT_EQ(groups.free_mlid(), Lid{0xC000});
  EXPECT_TRUE(groups.remove_port(kB).empty());
}

TEST_F(Groups, ThatArePermanentStay) {
  create(1, Lid{0xC000}, kDefaultPKey, true);
  join(1, kA, JoinState::FullMember);
  EXPECT_FALSE(groups.leave(mgid(1), kA, JoinState::FullMember));
  EXPECT_NE(groups.find(mgid(1)), nullptr);
}

TEST_F(Groups, OfOneMlidShareATree) {
  create(1, Lid{0xC000});
  create(2, Lid{0xC000});
  join(1, kA, JoinState::FullMember);
  join(2, kA, JoinState::SendOnlyNonMember);
  join(2, kB, JoinState::SendOnlyFullMember);
  join(2, kC, JoinState::NonMember);
  const auto members = groups.tree_members(Lid{0xC000});
  ASSERT_EQ(members.size(), 3U);
  EXPECT_TRUE(members[0].receives);
  EXPECT_FALSE(members[1].receives);
  EXPECT_TRUE(members[2].receives);
}

TEST_F(Groups, SayWhichTreesChanged) {
  create(1, Lid{0xC000});
  EXPECT_FALSE(groups.has_changes());
  join(1, kA, JoinState::FullMember);
  EXPECT_TRUE(groups.has_changes());
  EXPECT_EQ(groups.take_changed_mlids(), std::set{Lid{0xC000}});
  join(1, kA, JoinState::SendOnlyNonMember);
  EXPECT_FALSE(groups.has_changes()) << "it received before";
  groups.mark_all_changed();
  EXPECT_TRUE(groups.has_changes());
}

TEST_F(Groups, LosePortsThatAreGone) {
  create(1, Lid{0xC000});
  create(2, Lid{0xC001});
  join(1, kA, JoinState::FullMember);
  join(2, kA, JoinState::FullMember);
  join(2, kB, JoinState::FullMember);
  EXPECT_EQ(groups.remove_port(kA), std::vector{mgid(1)});
  EXPECT_FALSE(groups.find(mgid(2))->members.contains(kA));
}

TEST_F(Groups, CountMembershipsByWhoAsked) {
  create(1, Lid{0xC000});
  create(2, Lid{0xC001});
  join(1, kA, JoinState::FullMember, kB);
  EXPECT_TRUE(groups.has_room_for(kB));
  join(2, kA, JoinState::FullMember, kB);
  EXPECT_FALSE(groups.has_room_for(kB));
  EXPECT_TRUE(groups.has_room_for(kA)) << "what a proxy asked for is not its own";
  (void)groups.leave(mgid(1), kA, JoinState::FullMember);
  EXPECT_TRUE(groups.has_room_for(kB));
  EXPECT_EQ(groups.memberships_requested_by(kB), 1U);
}

TEST_F(Groups, MakeMgidsThatNobodyHas) {
  const Gid first = groups.make_mgid(kDefaultGidPrefix, 2);
  EXPECT_EQ(first.prefix() >> 32, 0xFF12'A01BU);
  const Gid second = groups.make_mgid(kDefaultGidPrefix, 5);
  EXPECT_NE(first, second);
  EXPECT_EQ(second.prefix() >> 32, 0xFF15'A01BU);
}

}  // namespace
}  // namespace weft::subnet
