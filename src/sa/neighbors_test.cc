#include "sa/neighbors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"

namespace weft::sa {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const Instant kNow{Duration::seconds(1)};
const IpAddress kA = IpAddress::v4(1);
const IpAddress kB = IpAddress::v4(2);
const IpAddress kC = IpAddress::v6(1, 2);

[[nodiscard]] wire::IpoibHardwareAddress hardware(std::uint64_t guid) {
  return {
      .qpn = Qpn{5},
        .gid = Gid{kDefaultGidPrefix, Guid{guid}}
  };
}
[[nodiscard]] Instant after(std::int64_t milliseconds) {
  return kNow + Duration::milliseconds(milliseconds);
}

TEST(NeighborTable, AsksMoreAndMoreSeldomUntilItIsAnswered) {
  NeighborTable table;
  ASSERT_TRUE(table.solicit(kA, after(5'000), kNow));
  EXPECT_THAT(table.take_solicitations(kNow), ElementsAre(kA));
  EXPECT_THAT(table.take_solicitations(after(249)), IsEmpty());
  EXPECT_EQ(table.deadline(), after(250));
  EXPECT_THAT(table.take_solicitations(after(250)), ElementsAre(kA));
  EXPECT_EQ(table.deadline(), after(750));
  EXPECT_THAT(table.take_solicitations(after(750)), ElementsAre(kA));
  EXPECT_EQ(table.deadline(), after(1'750));
  EXPECT_TRUE(table.take_answer(kA, hardware(7), after(800)));
  EXPECT_EQ(table.find(kA, after(800)), hardware(7));
  EXPECT_EQ(table.deadline(), Instant::never());
  table.check_invariants();
}

TEST(NeighborTable, TakesAnotherQpOfThePortThatHasTheAddressOnly) {  // R-IPOIB-26
  NeighborTable table;
  auto moved = hardware(7);
  moved.qpn = Qpn{6};
  EXPECT_FALSE(table.take_announcement(kA, moved, kNow));  // that nobody asked for
  ASSERT_TRUE(table.solicit(kA, after(5'000), kNow));
  EXPECT_FALSE(table.take_announcement(kA, moved, kNow));  // the answer is to come
  ASSERT_TRUE(table.take_answer(kA, hardware(7), kNow));
  EXPECT_FALSE(table.take_announcement(kA, hardware(8), kNow));
  EXPECT_EQ(table.find(kA, kNow), hardware(7));
  EXPECT_TRUE(table.take_announcement(kA, moved, after(10)));
  EXPECT_EQ(table.find(kA, after(10)), moved);
  const Instant over = kNow + NeighborLimits{}.reachable;
  EXPECT_FALSE(table.take_announcement(kA, hardware(7), over));
  EXPECT_EQ(table.find(kA, over), std::nullopt);
  table.check_invariants();
}

/// Whoever has an address whose host has moved it to another port is believed; who claims one whose
/// port is there is not.
TEST(NeighborTable, AsksAgainWhenAnotherPortHasTheAddress) {  // R-IPOIB-30
  for (const bool is_there : {false, true}) {
    NeighborTable table;
    ASSERT_TRUE(table.solicit(kA, after(5'000), kNow));
    ASSERT_TRUE(table.take_answer(kA, hardware(7), kNow));
    EXPECT_FALSE(table.take_announcement(kA, hardware(8), after(1'000)));
    EXPECT_FALSE(table.take_announcement(kA, hardware(8), after(1'010)));
    EXPECT_EQ(table.find(kA, after(1'010)), hardware(7));
    EXPECT_THAT(table.take_solicitations(after(1'010)), ElementsAre(kA));
    EXPECT_FALSE(table.take_answer(kA, hardware(8), after(1'020)));  // the other's turn
    table.check_invariants();
    if (is_there) {
      EXPECT_TRUE(table.take_answer(kA, hardware(7), after(1'030)));
      EXPECT_FALSE(table.take_answer(kA, hardware(8), after(1'300)));
      EXPECT_EQ(table.find(kA, after(1'300)), hardware(7));
    } else {
      EXPECT_THAT(table.take_solicitations(after(1'260)), ElementsAre(kA));
      EXPECT_TRUE(table.take_answer(kA, hardware(8), after(1'261)));
      EXPECT_EQ(table.find(kA, after(1'261)), hardware(8));
    }
    EXPECT_EQ(table.deadline(), Instant::never());
    table.check_invariants();
  }
}

TEST(NeighborTable, ForgetsADoubtedNeighborThatNobodyConfirms) {  // R-IPOIB-30
  NeighborTable table;
  ASSERT_TRUE(table.solicit(kA, after(5'000), kNow));
  ASSERT_TRUE(table.take_answer(kA, hardware(7), kNow));
  EXPECT_FALSE(table.take_announcement(kA, hardware(8), after(1'000)));
  EXPECT_EQ(table.find(kA, after(3'999)), hardware(7));
  EXPECT_EQ(table.find(kA, after(4'000)), std::nullopt);
  table.handle_timeout(after(4'000));
  EXPECT_EQ(table.size(), 0U);
  EXPECT_EQ(table.soliciting(), 0U);
  table.check_invariants();
}

TEST(NeighborTable, BelievesTheFirstAnswerToAQuestionOnly) {
  NeighborTable table;
  EXPECT_FALSE(table.take_answer(kA, hardware(7), kNow));
  ASSERT_TRUE(table.solicit(kA, after(100), kNow));
  EXPECT_FALSE(table.take_answer(kB, hardware(7), kNow));
  EXPECT_FALSE(table.take_answer(kA, {}, kNow));
  EXPECT_FALSE(table.take_answer(kA,
                                 {
                                     .gid = Gid{0xFF12'0000'0000'0000, Guid{1}}
  },
                                 kNow));
  EXPECT_FALSE(table.take_answer(kA, hardware(7), after(100)));  // too late
  EXPECT_TRUE(table.take_answer(kA, hardware(7), after(99)));
  EXPECT_FALSE(table.take_answer(kA, hardware(8), after(99)));
  EXPECT_EQ(table.find(kA, after(99)), hardware(7));
  EXPECT_EQ(table.find(kA, after(99) + NeighborLimits{}.reachable), std::nullopt);
}

TEST(NeighborTable, AsksForAsLongAsTheLastOneWants) {
  NeighborTable table;
  ASSERT_TRUE(table.solicit(kA, after(100), kNow));
  ASSERT_TRUE(table.solicit(kA, after(300), kNow));
  ASSERT_TRUE(table.solicit(kA, after(200), kNow));
  table.handle_timeout(after(299));
  EXPECT_EQ(table.size(), 1U);
  table.handle_timeout(after(300));
  EXPECT_EQ(table.size(), 0U);
  EXPECT_EQ(table.deadline(), Instant::never());
}

TEST(NeighborTable, ListsWhatIsKnownAndWhatIsAskedFor) {
  NeighborTable table;
  ASSERT_TRUE(table.solicit(kA, after(1'000), kNow));
  ASSERT_TRUE(table.solicit(kB, after(2'000), kNow));
  ASSERT_TRUE(table.take_answer(kB, hardware(7), after(500)));
  const auto entries = table.entries(after(600));
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].address, kA);
  EXPECT_EQ(entries[0].hardware, std::nullopt);
  EXPECT_EQ(entries[0].left, Duration::milliseconds(400));
  EXPECT_EQ(entries[1].hardware, hardware(7));
  EXPECT_EQ(entries[1].left, NeighborLimits{}.reachable - Duration::milliseconds(100));
  EXPECT_EQ(table.entries(after(1'000)).size(), 1U) << "what has ended is not shown";
}

TEST(NeighborTable, MakesRoomByWhatItHasKnownLongest) {
  NeighborTable table{{.neighbors = 2}};
  ASSERT_TRUE(table.solicit(kA, after(5'000), kNow));
  ASSERT_TRUE(table.take_answer(kA, hardware(1), kNow));
  ASSERT_TRUE(table.solicit(kB, after(5'000), kNow));
  ASSERT_TRUE(table.solicit(kC, after(5'000), kNow));
  EXPECT_EQ(table.find(kA, kNow), std::nullopt);
  EXPECT_FALSE(table.solicit(kA, after(5'000), kNow));  // what is asked for keeps its place
  table.stop_soliciting(kB);
  EXPECT_TRUE(table.solicit(kA, after(5'000), kNow));
  table.check_invariants();
}

TEST(NeighborTable, ForgetsAndAsksAnewWhenTheLinkWasDown) {
  NeighborTable table;
  ASSERT_TRUE(table.solicit(kA, after(5'000), kNow));
  ASSERT_TRUE(table.take_answer(kA, hardware(1), kNow));
  ASSERT_TRUE(table.solicit(kB, after(5'000), kNow));
  EXPECT_THAT(table.take_solicitations(kNow), ElementsAre(kB));
  table.forget();
  EXPECT_EQ(table.find(kA, kNow), std::nullopt);
  EXPECT_THAT(table.take_solicitations(kNow), ElementsAre(kB));
  table.check_invariants();
}

TEST(NeighborTable, HoldsTogetherWhateverHappens) {
  Random random{1};
  NeighborTable table{{.neighbors = 8}};
  Instant now = kNow;
  for (int i = 0; i < 100'000; ++i) {
    const IpAddress address = IpAddress::v4(static_cast<std::uint32_t>(random.below(16)));
    switch (random.below(6)) {
      case 0:
        static_cast<void>(table.solicit(
            address, now + Duration::milliseconds(static_cast<std::int64_t>(random.below(2'000))),
            now));
        break;
      case 1:
        static_cast<void>(table.take_answer(address, hardware(random.below(3)), now));
        break;
      case 2:
        table.stop_soliciting(address);
        break;
      case 3:
        static_cast<void>(table.take_solicitations(now));
        break;
      case 4:
        table.handle_timeout(now);
        break;
      default:
        now = now + Duration::milliseconds(static_cast<std::int64_t>(random.below(500)));
        if (random.chance(1, 100)) {
          table.forget();
        }
    }
    table.check_invariants();
  }
}

}  // namespace
}  // namespace weft::sa
