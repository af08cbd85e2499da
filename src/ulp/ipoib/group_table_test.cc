#include "ulp/ipoib/group_table.h"

#include <gtest/gtest.h>

#include "ulp/ipoib/testing_packets.h"
#include "wire/address_text.h"
#include "wire/ipoib/mgid.h"

namespace weft::ipoib {
namespace {

using Kind = GroupAction::Kind;
using testing::ip;
using wire::JoinState;
using wire::McMemberRecord;

constexpr PKey kPartition{0x8005};

McMemberRecord broadcast(std::uint8_t scope = wire::kLinkLocalScope) {
  return {.mgid = wire::ipoib_broadcast_group(kPartition, scope),
          .qkey = QKey{0xB1B},
          .mlid = Lid{0xC000},
          .mtu = 4,
          .tclass = 7,
          .pkey = kPartition,
          .rate = 3,
          .sl = ServiceLevel{2},
          .flow_label = 0x12345,
          .hop_limit = 9,
          .scope = scope,
          .join_state = JoinState::FullMember};
}

Instant at(std::int64_t seconds) { return Instant{Duration::seconds(seconds)}; }

McMemberRecord answer_to(const GroupAction& join, std::uint32_t mlid = 0xC001) {
  McMemberRecord record = join.join.record;
  record.mlid = Lid{mlid};
  return record;
}

TEST(IpoibGroups, TakeTheBroadcastGroupsParameters) {  // R-IPOIB-6, R-IPOIB-7
  GroupTable groups;
  groups.link_up(broadcast(), {});
  ASSERT_TRUE(groups.set_listening(ip("224.1.2.3"), true, {}));
  const auto join = groups.poll_action();
  ASSERT_TRUE(join);
  EXPECT_EQ(join->kind, Kind::Join);
  EXPECT_EQ(wire::address_text(join->mgid.octets()), "ff12:401b:8005::1:203");
  McMemberRecord expected = broadcast();
  expected.mgid = join->mgid;
  expected.mlid = Lid{};
  expected.mtu_selector = wire::Selector::Exactly;
  expected.rate_selector = wire::Selector::Exactly;
  EXPECT_EQ(join->join.record, expected);
  // IBTA vol 1 §15.2.5.17, by the bits: no MLID (3), and Scope (15) is the MGID's.
  constexpr std::uint64_t kQkey = 1U << 2U;
  constexpr std::uint64_t kMtuAndItsSelector = 3U << 4U;
  constexpr std::uint64_t kTClass = 1U << 6U;
  constexpr std::uint64_t kPkey = 1U << 7U;
  constexpr std::uint64_t kRateAndItsSelector = 3U << 8U;
  constexpr std::uint64_t kSl = 1U << 12U;
  constexpr std::uint64_t kFlowLabel = 1U << 13U;
  constexpr std::uint64_t kHopLimit = 1U << 14U;
  EXPECT_EQ(join->join.mask, kQkey | kMtuAndItsSelector | kTClass | kPkey | kRateAndItsSelector |
                                 kSl | kFlowLabel | kHopLimit);
}

TEST(IpoibGroups, AreOfTheScopeOfTheLink) {  // R-IPOIB-5
  GroupTable groups;
  groups.link_up(broadcast(5), {});
  ASSERT_TRUE(groups.set_listening(ip("ff05::1:3"), true, {}));
  EXPECT_EQ(wire::address_text(groups.poll_action()->mgid.octets()), "ff15:601b:8005::1:3");
}

TEST(IpoibGroups, AreJoinedToSendOnlyWhereNobodyListens) {  // R-IPOIB-7
  GroupTable groups;
  groups.link_up(broadcast(), {});
  groups.send(ip("224.1.2.3"), {std::byte{1}}, at(0));
  groups.send(ip("224.1.2.3"), {std::byte{2}}, at(0));
  const auto join = groups.poll_action();
  EXPECT_EQ(join->join.record.join_state, Flags{JoinState::SendOnlyFullMember});
  EXPECT_FALSE(groups.poll_action());  // the packets wait, and one join is enough
  groups.joined(answer_to(*join), at(0));
  for (const std::byte expected : {std::byte{1}, std::byte{2}}) {
    const auto sent = groups.poll_action();
    ASSERT_TRUE(sent);
    EXPECT_EQ(sent->kind, Kind::Send);
    EXPECT_EQ(sent->group.mlid, Lid{0xC001});
    EXPECT_EQ(sent->packet, Packet{expected});
  }
  EXPECT_FALSE(groups.is_listening(join->mgid));
  groups.handle_timeout(at(119));
  EXPECT_FALSE(groups.poll_action());
  groups.handle_timeout(at(120));
  const auto left = groups.poll_action();
  ASSERT_TRUE(left);
  EXPECT_EQ(left->kind, Kind::Leave);
  EXPECT_EQ(left->left, Flags{JoinState::SendOnlyFullMember});
  EXPECT_EQ(groups.size(), 0U);
}

TEST(IpoibGroups, BecomeFullMembershipsWhenTheHostListens) {  // R-IPOIB-7
  GroupTable groups;
  groups.link_up(broadcast(), {});
  groups.send(ip("224.1.2.3"), {}, {});
  const auto send_only = groups.poll_action();
  ASSERT_TRUE(groups.set_listening(ip("224.1.2.3"), true, {}));
  const auto full = groups.poll_action();
  EXPECT_EQ(full->join.record.join_state, Flags{JoinState::FullMember});
  groups.joined(answer_to(*send_only), {});  // late, and of the other kind
  EXPECT_EQ(groups.state_of(full->mgid), GroupState::Joining);
  groups.joined(answer_to(*full), {});
  EXPECT_EQ(groups.state_of(full->mgid), GroupState::Joined);
  EXPECT_TRUE(groups.is_listening(full->mgid));
}

TEST(IpoibGroups, AreLeftWhenTheHostStopsListening) {  // R-IPOIB-8
  GroupTable groups;
  groups.link_up(broadcast(), {});
  ASSERT_TRUE(groups.set_listening(ip("ff02::fb"), true, {}));
  groups.joined(answer_to(*groups.poll_action()), {});
  ASSERT_TRUE(groups.set_listening(ip("ff02::fb"), false, {}));
  const auto left = groups.poll_action();
  ASSERT_TRUE(left);
  EXPECT_EQ(left->kind, Kind::Leave);
  EXPECT_EQ(left->left, Flags{JoinState::FullMember});
}

TEST(IpoibGroups, AreTriedAgainEverMoreSlowly) {
  GroupTable groups;
  groups.link_up(broadcast(), {});
  ASSERT_TRUE(groups.set_listening(ip("224.1.2.3"), true, at(0)));
  Instant now{};
  for (const std::int64_t pause : {1, 2, 4, 8, 16, 16}) {
    const auto join = groups.poll_action();
    ASSERT_TRUE(join) << pause;
    groups.refused(join->mgid, now);
    EXPECT_EQ(groups.deadline(), now + Duration::seconds(pause));
    now = groups.deadline();
    groups.handle_timeout(now);
  }
}

TEST(IpoibGroups, WaitForTheLink) {
  GroupTable groups;
  ASSERT_TRUE(groups.set_listening(ip("224.1.2.3"), true, {}));
  groups.send(ip("224.1.2.4"), {}, {});
  EXPECT_FALSE(groups.poll_action());
  EXPECT_EQ(groups.counters().dropped, 1U);
  groups.link_up(broadcast(), {});
  const auto join = groups.poll_action();
  ASSERT_TRUE(join);
  groups.joined(answer_to(*join), {});
  groups.link_down();
  EXPECT_EQ(groups.state_of(join->mgid), GroupState::Waiting);
  groups.send(ip("224.1.2.3"), {}, {});
  EXPECT_FALSE(groups.poll_action());
  groups.link_up(broadcast(), {});
  EXPECT_EQ(groups.poll_action()->kind, Kind::Join);
}

TEST(IpoibGroups, AreWhereSaSaysWhenTheyAreJoinedAnew) {  // R-IPOIB-9
  GroupTable groups;
  groups.link_up(broadcast(), {});
  ASSERT_TRUE(groups.set_listening(ip("224.1.2.3"), true, at(0)));
  const auto join = groups.poll_action();
  groups.joined(answer_to(*join), at(0));
  groups.joined(answer_to(*join, 0xC077), at(0));
  groups.send(ip("224.1.2.3"), {}, at(0));
  EXPECT_EQ(groups.poll_action()->group.mlid, Lid{0xC077});
  groups.refused(join->mgid, at(0));
  EXPECT_EQ(groups.state_of(join->mgid), GroupState::Retry);
  groups.handle_timeout(at(1));
  EXPECT_EQ(groups.poll_action()->kind, Kind::Join);
}

TEST(IpoibGroups, SendToTheBroadcastGroupWithoutAJoin) {
  GroupTable groups;
  groups.link_up(broadcast(), {});
  groups.send(IpAddress::v4(0xFFFF'FFFF), {std::byte{1}}, {});
  const auto sent = groups.poll_action();
  ASSERT_TRUE(sent);
  EXPECT_EQ(sent->kind, Kind::Send);
  EXPECT_EQ(sent->group.mlid, Lid{0xC000});
  EXPECT_EQ(groups.size(), 0U);
}

TEST(IpoibGroups, AreBounded) {
  GroupTable groups{
      {.groups = 2, .packets_of_group = 3}
  };
  groups.link_up(broadcast(), {});
  EXPECT_TRUE(groups.set_listening(ip("224.1.0.1"), true, {}));
  EXPECT_TRUE(groups.set_listening(ip("224.1.0.2"), true, {}));
  EXPECT_FALSE(groups.set_listening(ip("224.1.0.3"), true, {}));
  for (int i = 0; i < 5; ++i) {
    groups.send(ip("224.1.0.1"), {}, {});
  }
  EXPECT_EQ(groups.counters().dropped, 2U);
}

}  // namespace
}  // namespace weft::ipoib
