#include "sriov/group_proxy.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "sriov/group_record.h"
#include "sriov/testing/mads.h"
#include "sriov/transaction_ids.h"

namespace weft::sriov {
namespace {

using wire::JoinState;
using wire::MadMethod;
using wire::McMemberRecord;

constexpr Instant kStart{};
const Gid kMgid{0xFF12'401B'FFFF'0000, Guid{1}};
const Gid kPort{kDefaultGidPrefix, Guid{100}};
constexpr std::uint64_t kForced = 7;  ///< transaction ID of every function

class SriovGroups : public ::testing::Test {
 protected:
  static Gid gid_of(FunctionId function) {
    return Gid{kDefaultGidPrefix, Guid{function.value() + 1000U}};
  }

  wire::SaMad request(FunctionId from, MadMethod method, JoinStates states,
                      std::uint64_t transaction_id = kForced) const {
    const McMemberRecord record{.mgid = mgid, .port_gid = gid_of(from), .join_state = states};
    return testing::make_sa(method, wire::SaAttribute::McMemberRecord, record, kMembershipMask,
                            transaction_id);
  }
  OrReason<Reason> ask(std::uint16_t from, MadMethod method, JoinStates states,
                       std::uint64_t transaction_id = kForced) {
    const FunctionId function{from};
    return proxy.handle_request({.function = function, .gid = gid_of(function)},
                                request(function, method, states, transaction_id), now);
  }
  OrReason<Reason> join(std::uint16_t from, JoinStates states = JoinState::FullMember) {
    return ask(from, MadMethod::Set, states);
  }
  OrReason<Reason> leave(std::uint16_t from, JoinStates states = JoinState::FullMember) {
    return ask(from, MadMethod::Delete, states);
  }

  /// What goes to SA.
  std::vector<wire::SaMad> sent() {
    std::vector<wire::SaMad> all;
    while (const auto mad = proxy.poll_transmit()) {
      all.push_back(*mad);
    }
    return all;
  }
  std::vector<GroupProxy::Answer> answers() {
    std::vector<GroupProxy::Answer> all;
    while (const auto answer = proxy.poll_answer()) {
      all.push_back(*answer);
    }
    return all;
  }
  /// SA answers.
  void answer(const wire::SaMad& asked, std::uint16_t status = 0) {
    wire::SaMad mad = asked;
    mad.sa.header.method =
        asked.sa.header.method == MadMethod::Set ? MadMethod::GetResp : MadMethod::DeleteResp;
    mad.sa.header.status = status;
    McMemberRecord record = record_of(asked);
    record.mlid = Lid{0xC001};
    if (record.mgid.is_zero()) {
      record.mgid = kMgid;
    }
    set_record(mad, record);
    EXPECT_TRUE(proxy.handle_answer(mad, now));
    proxy.check_invariants();
  }
  void answer_all() {
    for (const wire::SaMad& mad : sent()) {
      answer(mad);
    }
  }
  void wait(Duration span) {
    now = now + span;
    proxy.handle_timeout(now);
    proxy.check_invariants();
  }
  void remake(const GroupLimits& limits) { proxy = GroupProxy{limits, kPort}; }

  Gid mgid = kMgid;
  Instant now = kStart;
  GroupProxy proxy{{}, kPort};
};

// T-SRI-4
TEST_F(SriovGroups, ThreeJoinsAreOneAtSaAndTheLastLeaveIsOne) {
  ASSERT_TRUE(join(1).has_value());
  ASSERT_TRUE(join(2).has_value());
  const auto first = sent();
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(record_of(first[0]).port_gid, kPort);
  EXPECT_EQ(tag_of(first[0].sa.header.transaction_id), kMulticastTag);
  EXPECT_TRUE(answers().empty());
  answer(first[0]);
  ASSERT_TRUE(join(3).has_value());
  EXPECT_TRUE(sent().empty());
  const auto told = answers();
  ASSERT_EQ(told.size(), 3U);
  for (std::uint16_t i = 0; i < 3; ++i) {
    const FunctionId function{static_cast<std::uint16_t>(i + 1)};
    EXPECT_EQ(told[i].function, function);
    EXPECT_EQ(told[i].mad.sa.header.method, MadMethod::GetResp);
    EXPECT_EQ(told[i].mad.sa.header.status, 0);
    EXPECT_EQ(told[i].mad.sa.header.transaction_id, kForced);
    EXPECT_EQ(record_of(told[i].mad).port_gid, gid_of(function));
    EXPECT_EQ(record_of(told[i].mad).mlid, Lid{0xC001});
  }
  ASSERT_TRUE(leave(1).has_value());
  ASSERT_TRUE(leave(3).has_value());
  EXPECT_TRUE(sent().empty());
  ASSERT_TRUE(leave(2).has_value());
  const auto last = sent();
  ASSERT_EQ(last.size(), 1U);
  EXPECT_EQ(last[0].sa.header.method, MadMethod::Delete);
  EXPECT_EQ(record_of(last[0]).join_state, JoinStates{JoinState::FullMember});
  const auto left = answers();
  ASSERT_EQ(left.size(), 3U);  // at once
  EXPECT_EQ(left[0].mad.sa.header.method, MadMethod::DeleteResp);
  answer(last[0]);
  EXPECT_EQ(proxy.size(), 0U);
}

TEST_F(SriovGroups, AnotherJoinStateIsASecondJoinWithTheUnion) {  // T-SRI-4
  ASSERT_TRUE(join(1, JoinState::FullMember).has_value());
  answer_all();
  ASSERT_TRUE(join(2, JoinState::SendOnlyNonMember).has_value());
  const auto second = sent();
  ASSERT_EQ(second.size(), 1U);
  EXPECT_EQ(record_of(second[0]).join_state,
            JoinStates{JoinState::FullMember} | JoinState::SendOnlyNonMember);
  answer(second[0]);
  ASSERT_TRUE(leave(1).has_value());
  const auto third = sent();
  ASSERT_EQ(third.size(), 1U);
  EXPECT_EQ(record_of(third[0]).join_state, JoinStates{JoinState::FullMember});
  answer(third[0]);
  EXPECT_EQ(proxy.confirmed(kMgid), JoinStates{JoinState::SendOnlyNonMember});
}

TEST_F(SriovGroups, EachStateHasItsRequestUnderWay) {  // R-SRI-8
  EXPECT_EQ(proxy.state(kMgid), GroupState::Idle);
  std::ignore = join(1);
  EXPECT_EQ(proxy.state(kMgid), GroupState::JoinSent);
  std::ignore = join(2, JoinState::NonMember);
  const auto first = sent();
  ASSERT_EQ(first.size(), 1U);  // the second waits for its turn
  answer(first[0]);
  EXPECT_EQ(proxy.state(kMgid), GroupState::JoinSent);
  answer_all();
  EXPECT_EQ(proxy.state(kMgid), GroupState::Idle);
  std::ignore = leave(1);
  EXPECT_EQ(proxy.state(kMgid), GroupState::LeaveSent);
  std::ignore = join(1);  // before the leave is answered: joined anew afterwards
  answer_all();
  EXPECT_EQ(proxy.state(kMgid), GroupState::JoinSent);
  answer_all();
  EXPECT_EQ(proxy.confirmed(kMgid), JoinStates{JoinState::FullMember} | JoinState::NonMember);
}

TEST_F(SriovGroups, AJoinThatDoesNotFitTheGroupIsRefusedHere) {
  std::ignore = join(1);
  answer_all();
  std::ignore = answers();
  wire::SaMad wrong = request(FunctionId{2}, MadMethod::Set, JoinState::FullMember);
  wrong.sa.component_mask |= wire::kComponent<McMemberRecord, "MLID">;
  ASSERT_TRUE(
      proxy.handle_request({.function = FunctionId{2}, .gid = gid_of(FunctionId{2})}, wrong, now)
          .has_value());
  EXPECT_TRUE(sent().empty());
  const auto told = answers();
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].mad.sa.header.status, 0x0200);
  std::ignore = leave(2);
  EXPECT_EQ(answers()[0].mad.sa.header.status, 0x0200);  // it has nothing to leave
  mgid = Gid{0xFF12'401B'FFFF'0000, Guid{2}};
  std::ignore = leave(2);
  EXPECT_EQ(answers()[0].mad.sa.header.status, 0x0200);
}

TEST_F(SriovGroups, AForeignGidOrPartitionIsRefusedHere) {
  const FunctionId function{1};
  const auto asked = request(function, MadMethod::Set, JoinState::FullMember);
  std::ignore = proxy.handle_request({.function = function, .gid = kPort}, asked, now);
  std::ignore = proxy.handle_request(
      {.function = function, .gid = gid_of(function), .has_partition = false}, asked, now);
  EXPECT_TRUE(sent().empty());
  const auto told = answers();
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(told[0].mad.sa.header.status, 0x0500);
  EXPECT_EQ(told[1].mad.sa.header.status, 0x0200);
}

TEST_F(SriovGroups, SasRefusalReachesWhoAsked) {
  std::ignore = join(1);
  answer(sent()[0], 0x0700);
  const auto told = answers();
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].mad.sa.header.status, 0x0700);
  EXPECT_EQ(proxy.size(), 0U);
}

TEST_F(SriovGroups, ARequestWithoutAnAnswerIsRepeatedAndThenWithdrawn) {
  std::ignore = join(1);
  EXPECT_EQ(sent().size(), 1U);
  EXPECT_EQ(proxy.poll_deadline(), kStart + Duration::seconds(2));
  wait(Duration::seconds(2));
  wait(Duration::seconds(2));
  EXPECT_EQ(sent().size(), 2U);
  wait(Duration::seconds(2));  // given up; SA may have it
  EXPECT_TRUE(sent().empty());
  EXPECT_TRUE(answers().empty());
  EXPECT_EQ(proxy.size(), 1U);
  wait(Duration::seconds(1));
  const auto withdrawal = sent();
  ASSERT_EQ(withdrawal.size(), 1U);
  EXPECT_EQ(withdrawal[0].sa.header.method, MadMethod::Delete);
  answer(withdrawal[0], 0x0200);  // SA never had it
  EXPECT_EQ(proxy.size(), 0U);
  EXPECT_EQ(proxy.poll_deadline(), Instant::never());
}

TEST_F(SriovGroups, ARepeatedRequestIsNotTakenTwice) {
  ASSERT_TRUE(join(1).has_value());
  EXPECT_EQ(join(1), std::unexpected(Reason::MulticastRefused));
  for (std::uint64_t i = 1; i < 4; ++i) {
    EXPECT_TRUE(ask(1, MadMethod::Set, JoinState::FullMember, kForced + i).has_value());
  }
  EXPECT_EQ(ask(1, MadMethod::Set, JoinState::FullMember, 99),
            std::unexpected(Reason::MulticastRefused));  // four are pending
  EXPECT_TRUE(join(2).has_value());
}

TEST_F(SriovGroups, AFunctionHasALimitOfGroups) {
  remake({.groups_of_function = 2});
  for (std::uint64_t i = 1; i <= 3; ++i) {
    mgid = Gid{0xFF12'401B'FFFF'0000, Guid{i}};
    std::ignore = join(1);
    answer_all();
  }
  const auto told = answers();
  ASSERT_EQ(told.size(), 3U);
  EXPECT_EQ(told[2].mad.sa.header.status, 0x0100);
  std::ignore = join(2);
  answer_all();
  EXPECT_EQ(answers()[0].mad.sa.header.status, 0);
}

TEST_F(SriovGroups, AFunctionMayHaveALimitOfItsOwn) {
  proxy.set_limit(FunctionId{1}, 1);
  for (std::uint64_t i = 1; i <= 2; ++i) {
    mgid = Gid{0xFF12'401B'FFFF'0000, Guid{i}};
    std::ignore = join(1);
    answer_all();
    std::ignore = join(2);
    answer_all();
  }
  std::uint16_t refused = 0;
  for (const auto& told : answers()) {
    refused = static_cast<std::uint16_t>(refused + (told.mad.sa.header.status == 0x0100 ? 1 : 0));
  }
  EXPECT_EQ(refused, 1);
  EXPECT_EQ(proxy.groups_of(FunctionId{1}), 1U);
  EXPECT_EQ(proxy.limit_of(FunctionId{1}), 1U);
  EXPECT_EQ(join(1), OrReason<Reason>{Reason::TooManyGroups});
  EXPECT_EQ(answers().back().mad.sa.header.status, 0x0100);
  proxy.set_limit(FunctionId{1}, std::nullopt);
  std::ignore = join(1);
  answer_all();
  EXPECT_EQ(answers().back().mad.sa.header.status, 0);
}

TEST_F(SriovGroups, AFunctionThatIsGoneLeaves) {
  std::ignore = join(1);
  std::ignore = join(2, JoinState::NonMember);
  answer_all();
  answer_all();
  proxy.remove(FunctionId{1}, now);
  const auto leaves = sent();
  ASSERT_EQ(leaves.size(), 1U);
  EXPECT_EQ(record_of(leaves[0]).join_state, JoinStates{JoinState::FullMember});
  answer(leaves[0]);
  EXPECT_EQ(proxy.confirmed(kMgid), JoinStates{JoinState::NonMember});
}

TEST_F(SriovGroups, AJoinOfAFunctionThatIsGoneIsUndone) {
  std::ignore = join(1);
  const auto asked = sent();
  proxy.remove(FunctionId{1}, now);
  EXPECT_TRUE(sent().empty());  // the answer is waited for
  answer(asked[0]);
  const auto undone = sent();
  ASSERT_EQ(undone.size(), 1U);
  EXPECT_EQ(undone[0].sa.header.method, MadMethod::Delete);
  EXPECT_TRUE(answers().empty());
}

TEST_F(SriovGroups, AreJoinedAnewWhenTheManagerForgot) {
  std::ignore = join(1);
  answer_all();
  std::ignore = join(2, JoinState::NonMember);
  const auto under_way = sent();
  proxy.rejoin_all(now);
  proxy.check_invariants();
  EXPECT_TRUE(proxy.handle_answer(under_way[0], now));  // of the old one: too late
  const auto again = sent();
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(record_of(again[0]).join_state,
            JoinStates{JoinState::FullMember} | JoinState::NonMember);
  answer(again[0]);
  EXPECT_EQ(proxy.confirmed(kMgid), proxy.wanted(kMgid));
  EXPECT_EQ(answers().size(), 2U);
  // A repair that is refused is tried again later.
  proxy.rejoin_all(now);
  answer(sent()[0], 0x0700);
  EXPECT_TRUE(sent().empty());
  wait(Duration::seconds(1));
  answer(sent()[0], 0x0700);
  EXPECT_EQ(proxy.poll_deadline(), now + Duration::seconds(2));
  wait(Duration::seconds(2));
  answer_all();
  EXPECT_EQ(proxy.confirmed(kMgid), proxy.wanted(kMgid));
}

TEST_F(SriovGroups, AGroupWithoutANameGetsSas) {
  mgid = Gid{};
  std::ignore = join(1);
  std::ignore = join(2);
  const auto both = sent();
  ASSERT_EQ(both.size(), 2U);  // each creates one
  answer(both[0]);
  EXPECT_EQ(proxy.wanted(kMgid), JoinStates{JoinState::FullMember});
  answer(both[1]);  // the same name again: it is one group
  EXPECT_EQ(proxy.size(), 1U);
  EXPECT_EQ(proxy.memberships_of(FunctionId{1}).size(), 1U);
  EXPECT_EQ(proxy.memberships_of(FunctionId{2}).size(), 1U);
}

TEST_F(SriovGroups, MoveWithTheirFunction) {
  std::ignore = join(1);
  answer_all();
  const auto moving = proxy.memberships_of(FunctionId{1});
  ASSERT_EQ(moving.size(), 1U);
  proxy.remove(FunctionId{1}, now);
  answer_all();
  EXPECT_EQ(proxy.size(), 0U);
  GroupProxy other{
      {},
      Gid{kDefaultGidPrefix, Guid{200}}
  };
  other.adopt(FunctionId{5}, moving, now);
  const auto asked = other.poll_transmit();
  ASSERT_TRUE(asked.has_value());
  EXPECT_EQ(asked->sa.header.method, MadMethod::Set);
  EXPECT_EQ(record_of(*asked).mgid, kMgid);
  EXPECT_EQ(other.wanted(kMgid), JoinStates{JoinState::FullMember});
}

}  // namespace
}  // namespace weft::sriov
