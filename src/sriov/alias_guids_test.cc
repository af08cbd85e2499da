#include "sriov/alias_guids.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "sriov/testing/mads.h"
#include "sriov/transaction_ids.h"
#include "wire/mad/sa_table_records.h"

namespace weft::sriov {
namespace {

using wire::GuidInfoRecord;
using wire::MadMethod;

constexpr Instant kStart{};
constexpr FunctionId kA{1};
constexpr FunctionId kB{2};
constexpr FunctionId kFar{9};  ///< in the next block
constexpr Guid kGuid{0x1234};

class SriovAliasGuids : public ::testing::Test {
 protected:
  GuidInfoRecord record(const wire::SaMad& mad) { return testing::record_of<GuidInfoRecord>(mad); }
  /// SA grants what is asked, and chooses 0x9000 + index where it may.
  void grant(const wire::SaMad& asked, std::uint16_t status = 0) {
    GuidInfoRecord told = record(asked);
    for (std::size_t i = 0; i < told.guid_info.guids.size(); ++i) {
      if (told.guid_info.guids[i] == kGuidByManager) {
        told.guid_info.guids[i] = Guid{0x9000 + i};
      }
    }
    answer(asked, told, status);
  }
  void answer(const wire::SaMad& asked, const GuidInfoRecord& told, std::uint16_t status = 0) {
    wire::SaMad mad = asked;
    mad.sa.header.method =
        asked.sa.header.method == MadMethod::Set ? MadMethod::GetResp : MadMethod::DeleteResp;
    mad.sa.header.status = status;
    std::ranges::copy(wire::pack(told), mad.data.begin());
    EXPECT_TRUE(guids.handle_answer(mad, now));
    guids.check_invariants();
  }
  std::optional<wire::SaMad> sent() { return guids.poll_transmit(now); }
  void wait(Duration span) {
    now = now + span;
    guids.handle_timeout(now);
  }

  Instant now = kStart;
  AliasGuids guids{{}};
};

TEST_F(SriovAliasGuids, OfABlockAreRegisteredTogether) {
  guids.set_lid(Lid{5});
  ASSERT_TRUE(guids.set(kA, kGuid, now).has_value());
  ASSERT_TRUE(guids.set(kB, kGuidByManager, now).has_value());
  ASSERT_TRUE(guids.set(kFar, kGuidByManager, now).has_value());
  const auto first = sent();
  const auto second = sent();
  ASSERT_TRUE(first && second);
  EXPECT_FALSE(sent().has_value());
  EXPECT_EQ(first->sa.header.method, MadMethod::Set);
  EXPECT_EQ(first->sa.component_mask, 0b110'0011U);  // LID, block, the GUIDs 1 and 2
  EXPECT_EQ(record(*first).lid, Lid{5});
  EXPECT_EQ(record(*first).block, 0);
  EXPECT_EQ(record(*first).guid_info.guids[1], kGuid);
  EXPECT_EQ(record(*second).block, 1);
  EXPECT_EQ(guids.guid_of(kA), Guid{});
  EXPECT_FALSE(guids.poll_change().has_value());
  grant(*first);
  EXPECT_EQ(guids.poll_change(), (AliasGuids::Change{kA, kGuid}));
  EXPECT_EQ(guids.poll_change(), (AliasGuids::Change{kB, Guid{0x9002}}));
  EXPECT_EQ(guids.state(kA), AliasGuidState::Valid);
  EXPECT_EQ(guids.state(kFar), AliasGuidState::Requested);
}

TEST_F(SriovAliasGuids, ADeclinedOneIsAskedForAgainEverLater) {
  ASSERT_TRUE(guids.set(kA, kGuid, now).has_value());
  Duration expected = Duration::seconds(1);
  for (int i = 0; i < 8; ++i) {
    const auto asked = sent();
    ASSERT_TRUE(asked.has_value());
    GuidInfoRecord told = record(*asked);
    told.guid_info.guids[1] = Guid{};  // declined (IBTA vol 1 §15.2.5.18)
    answer(*asked, told);
    EXPECT_EQ(guids.state(kA), AliasGuidState::Declined);
    EXPECT_EQ(guids.poll_deadline(), now + expected);
    wait(expected - Duration::nanoseconds(1));
    EXPECT_FALSE(sent().has_value());
    wait(Duration::nanoseconds(1));
    expected = std::min(expected * 2, Duration::seconds(60));
  }
  EXPECT_EQ(expected, Duration::seconds(60));
}

TEST_F(SriovAliasGuids, AnotherGuidThanTheOneSetIsNoSuccess) {
  ASSERT_TRUE(guids.set(kA, kGuid, now).has_value());
  const auto asked = sent();
  GuidInfoRecord told = record(*asked);
  told.guid_info.guids[1] = Guid{77};
  answer(*asked, told);
  EXPECT_EQ(guids.state(kA), AliasGuidState::Declined);
}

TEST_F(SriovAliasGuids, NoAnswerIsAnsweredByAnotherRequest) {
  ASSERT_TRUE(guids.set(kA, kGuid, now).has_value());
  const auto asked = sent();
  wait(Duration::seconds(2));
  EXPECT_EQ(guids.state(kA), AliasGuidState::Declined);
  wait(Duration::seconds(1));
  const auto again = sent();
  ASSERT_TRUE(again.has_value());
  grant(*asked);  // of the first: late
  EXPECT_EQ(guids.state(kA), AliasGuidState::Requested);
  grant(*again);
  EXPECT_EQ(guids.guid_of(kA), kGuid);
}

TEST_F(SriovAliasGuids, AreRegisteredAnewAfterARestartOfTheManager) {
  ASSERT_TRUE(guids.set(kA, kGuidByManager, now).has_value());
  grant(*sent());
  EXPECT_TRUE(guids.poll_change().has_value());
  guids.reregister_all(now);
  EXPECT_EQ(guids.guid_of(kA), Guid{});  // not until it is confirmed
  const auto asked = sent();
  ASSERT_TRUE(asked.has_value());
  grant(*asked);
  EXPECT_EQ(guids.guid_of(kA), Guid{0x9001});
  EXPECT_FALSE(guids.poll_change().has_value());  // it is the same one
}

TEST_F(SriovAliasGuids, WhatWasAskedBeforeThePortWentDownIsAskedAtOnceWhenItIsUp) {
  ASSERT_TRUE(guids.set(kA, kGuid, now).has_value());
  ASSERT_TRUE(guids.set(kFar, kGuid, now).has_value());
  grant(*sent());
  EXPECT_EQ(guids.state(kA), AliasGuidState::Valid);
  const auto lost = sent();
  ASSERT_TRUE(lost.has_value());
  guids.handle_port_up();
  const auto again = sent();
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(record(*again).block, 1);
  EXPECT_FALSE(sent().has_value());  // SA has the other
  EXPECT_EQ(guids.state(kA), AliasGuidState::Valid);
  grant(*lost);  // late
  EXPECT_EQ(guids.state(kFar), AliasGuidState::Requested);
  grant(*again);
  EXPECT_EQ(guids.state(kFar), AliasGuidState::Valid);
}

TEST_F(SriovAliasGuids, AreDeletedWithTheirFunction) {
  ASSERT_TRUE(guids.set(kA, kGuid, now).has_value());
  grant(*sent());
  EXPECT_TRUE(guids.poll_change().has_value());
  ASSERT_TRUE(guids.set(kA, kGuidDelete, now).has_value());
  EXPECT_EQ(guids.poll_change(), (AliasGuids::Change{kA, Guid{}}));
  const auto lost = sent();
  ASSERT_TRUE(lost.has_value());
  EXPECT_EQ(lost->sa.header.method, MadMethod::Delete);
  wait(Duration::seconds(2));  // no answer
  EXPECT_FALSE(sent().has_value());
  wait(Duration::seconds(1));
  const auto again = sent();
  ASSERT_TRUE(again.has_value());
  grant(*again);
  EXPECT_EQ(guids.state(kA), AliasGuidState::Unset);
  EXPECT_EQ(guids.poll_deadline(), Instant::never());
}

TEST_F(SriovAliasGuids, AnAnswerToWhatIsNoLongerWantedDoesNotCount) {
  ASSERT_TRUE(guids.set(kA, kGuid, now).has_value());
  const auto asked = sent();
  ASSERT_TRUE(guids.set(kA, Guid{0x5678}, now).has_value());
  EXPECT_FALSE(sent().has_value());  // one at a time
  grant(*asked);
  EXPECT_EQ(guids.guid_of(kA), Guid{});
  const auto again = sent();
  ASSERT_TRUE(again.has_value());
  grant(*again);
  EXPECT_EQ(guids.guid_of(kA), Guid{0x5678});
}

TEST_F(SriovAliasGuids, ThePortsOwnIsNotWritten) {
  EXPECT_FALSE(guids.set(kPhysicalFunction, kGuid, now).has_value());
  EXPECT_FALSE(guids.set(FunctionId{kMostFunctions}, kGuid, now).has_value());
  EXPECT_FALSE(
      guids.handle_answer(testing::make_sa(MadMethod::GetResp, wire::SaAttribute::GuidInfoRecord,
                                           GuidInfoRecord{}, 0, 5),
                          now));
}

}  // namespace
}  // namespace weft::sriov
