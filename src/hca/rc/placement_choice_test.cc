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
  void place(std::int64_t nanoseconds) {
    const Instant start = now_;
    pass(nanoseconds);
    choice_.count_placed(start, now_);
  }

  Instant now_{Duration::seconds(1)};
  PlacementChoice choice_;
};

TEST_F(PlacementChoices, BeginWithPackets) { EXPECT_FALSE(choice_.places(now_)); }

TEST_F(PlacementChoices, PlaceWherePacketsAreSlow) {
  send(1'000);
  EXPECT_FALSE(choice_.places(now_));
  send(20'000);
  EXPECT_TRUE(choice_.places(now_));
  send(1'000);
  EXPECT_FALSE(choice_.places(now_));
}

TEST_F(PlacementChoices, KnowThatLongCopiesTakeTime) {
  send(10'000, 65'536);
  EXPECT_FALSE(choice_.places(now_)) << "a copy of it takes as long";
  send(40'000, 65'536);
  EXPECT_TRUE(choice_.places(now_));
}

/// Half of the time that a WRITE takes is that of its acknowledgement; a READ has none.
TEST_F(PlacementChoices, CompareWithTheWayThere) {
  send(2'500, 8, false);
  EXPECT_FALSE(choice_.places(now_));
  send(2'500, 8, true);
  EXPECT_TRUE(choice_.places(now_));
}

TEST_F(PlacementChoices, LeaveStreamsToPackets) {
  send(20'000);
  ASSERT_TRUE(choice_.places(now_));
  place(1'200);
  pass(100);
  EXPECT_FALSE(choice_.places(now_)) << "the next one follows at once";
  pass(1'300);
  EXPECT_TRUE(choice_.places(now_)) << "a peer's answer came between";
}

TEST_F(PlacementChoices, DoNotTimeWhatIsNotAlone) {
  choice_.begin_timing(now_, 8, false);
  ASSERT_TRUE(choice_.is_timing());
  choice_.stop_timing();
  EXPECT_FALSE(choice_.is_timing());
  EXPECT_FALSE(choice_.places(now_));
}

TEST_F(PlacementChoices, TimePacketsNowAndThen) {
  send(20'000);
  int sent = 0;
  for (int i = 0; i < 2'048; ++i) {
    pass(3'000);
    if (choice_.places(now_)) {
      place(1'200);
    } else {
      ++sent;
    }
  }
  EXPECT_EQ(sent, 4);
}

}  // namespace
}  // namespace weft::hca
