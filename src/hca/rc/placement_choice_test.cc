#include "hca/rc/placement_choice.h"

#include <gtest/gtest.h>

namespace weft::hca {
namespace {

class PlacementChoices : public ::testing::Test {
 protected:
  void pass(std::int64_t nanoseconds) { now_ = now_ + Duration::nanoseconds(nanoseconds); }
  /// A lone message whose packets take so long.
  void send(std::int64_t nanoseconds, std::uint32_t bytes = 8, bool is_read = false) {
    choice_.begin_timing(now_, bytes, is_read);
    pass(nanoseconds);
    choice_.end_timing(now_);
  }
  /// As many as decide.
  void look(std::int64_t nanoseconds, std::uint32_t bytes = 8, bool is_read = false) {
    for (int i = 0; i < kLook; ++i) {
      send(nanoseconds, bytes, is_read);
    }
  }
  /// A message starts as packets, and another one after it.
  void join() {
    choice_.begin_timing(now_, 8, false);
    choice_.stop_timing();
  }
  int place_until_timed() {
    int placed = 0;
    while (choice_.places(now_)) {
      place(1'200);
      ++placed;
    }
    return placed;
  }
  void place(std::int64_t nanoseconds) {
    const Instant start = now_;
    pass(nanoseconds);
    choice_.count_placed(start, now_);
  }

  static constexpr int kLook = 12;
  Instant now_{Duration::seconds(1)};
  PlacementChoice choice_;
};

TEST_F(PlacementChoices, BeginWithPackets) { EXPECT_FALSE(choice_.places(now_)); }

TEST_F(PlacementChoices, PlaceWherePacketsAreSlow) {
  look(1'000);
  EXPECT_FALSE(choice_.places(now_));
  look(20'000);
  EXPECT_TRUE(choice_.places(now_));
  look(1'000);
  EXPECT_FALSE(choice_.places(now_));
}

TEST_F(PlacementChoices, KnowThatLongCopiesTakeTime) {
  look(10'000, 65'536);
  EXPECT_FALSE(choice_.places(now_)) << "a copy of it takes as long";
  look(60'000, 65'536);
  EXPECT_TRUE(choice_.places(now_));
}

/// Half of the time that a WRITE takes is that of its acknowledgement; a READ has none.
TEST_F(PlacementChoices, CompareWithTheWayThere) {
  look(5'000, 8, false);
  EXPECT_FALSE(choice_.places(now_));
  look(5'000, 8, true);
  EXPECT_TRUE(choice_.places(now_));
}

TEST_F(PlacementChoices, StayBetweenTheLimits) {
  look(2'500, 8, true);
  EXPECT_FALSE(choice_.places(now_));
  look(20'000, 8, true);
  ASSERT_TRUE(choice_.places(now_));
  look(2'500, 8, true);
  EXPECT_TRUE(choice_.places(now_));
}

/// The time that they are given may be some microseconds old.
TEST_F(PlacementChoices, TakeTheMeanOfSeveral) {
  for (int i = 0; i < kLook; ++i) {
    send(i % 2 == 0 ? 0 : 4'000);
  }
  EXPECT_FALSE(choice_.places(now_));
}

TEST_F(PlacementChoices, ForgiveOneThatWasSlow) {
  for (int i = 0; i < kLook; ++i) {
    send(i == kLook - 1 ? 1'000'000 : 1'000);
  }
  EXPECT_FALSE(choice_.places(now_));
}

TEST_F(PlacementChoices, DoNotCountThoseThatWakeThePeer) {
  look(20'000);
  ASSERT_TRUE(choice_.places(now_));
  for (int i = 0; i < kLook; ++i) {
    send(i < 4 ? 20'000 : 1'000);
  }
  EXPECT_FALSE(choice_.places(now_));
}

/// A stream's messages are joined by others before they are complete.
TEST_F(PlacementChoices, LeaveStreamsToPackets) {
  look(20'000);
  ASSERT_TRUE(choice_.places(now_));
  place(1'200);
  join();
  pass(100);
  EXPECT_FALSE(choice_.places(now_)) << "the next one follows at once";
  pass(1'300);
  EXPECT_TRUE(choice_.places(now_)) << "a peer's answer came between";
}

/// As a chain of READs, which has nothing else to wait for.
TEST_F(PlacementChoices, PlaceThoseThatAreWaitedForOneByOne) {
  look(20'000, 8, true);
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(choice_.places(now_)) << i;
    place(1'200);
    pass(100);
  }
}

/// A stream that paused is taken for one that waits, but not for long.
TEST_F(PlacementChoices, TimeAgainSoon) {
  look(20'000);
  EXPECT_EQ(place_until_timed(), 32);
  join();
  pass(100);
  EXPECT_FALSE(choice_.places(now_));
}

TEST_F(PlacementChoices, DoNotTimeWhatIsNotAlone) {
  choice_.begin_timing(now_, 8, false);
  ASSERT_TRUE(choice_.is_timing());
  choice_.stop_timing();
  EXPECT_FALSE(choice_.is_timing());
  EXPECT_FALSE(choice_.places(now_));
}

TEST_F(PlacementChoices, TimePacketsMoreAndMoreSeldom) {
  look(20'000);
  for (const int placed : {32, 64, 128, 256, 512, 1'024, 2'048, 4'096, 4'096}) {
    ASSERT_EQ(place_until_timed(), placed);
    look(20'000);
  }
}

/// How many of `messages` ask.
[[nodiscard]] int asking(SharedPagesChoice& pages, int messages) {
  int asked = 0;
  for (int i = 0; i < messages; ++i) {
    asked += pages.asks_now() ? 1 : 0;
  }
  return asked;
}

TEST(SharedPagesChoices, AskSoonAndThenEverMoreRarely) {
  SharedPagesChoice pages;
  EXPECT_EQ(asking(pages, 3), 0);
  EXPECT_EQ(asking(pages, 1), 1);
  EXPECT_EQ(asking(pages, 4), 1);
  EXPECT_EQ(asking(pages, 7), 0);
  EXPECT_EQ(asking(pages, 1), 1);
  EXPECT_LE(asking(pages, 10'000), 26);
  EXPECT_GE(asking(pages, 10'000), 19) << "but never cease";
}

TEST(SharedPagesChoices, AskSoonAgainForWhatTheyHave) {
  SharedPagesChoice pages;
  EXPECT_GT(asking(pages, 10'000), 0);
  pages.note(PlacementMeans::SharedPages);
  EXPECT_TRUE(pages.are_shared());
  pages.note(PlacementMeans::None);
  EXPECT_FALSE(pages.are_shared());
  EXPECT_EQ(asking(pages, 4), 1);
}

TEST(SharedPagesChoices, AreNotMadeByASystemCall) {
  SharedPagesChoice pages;
  pages.note(PlacementMeans::SystemCall);
  EXPECT_FALSE(pages.are_shared());
}

}  // namespace
}  // namespace weft::hca
