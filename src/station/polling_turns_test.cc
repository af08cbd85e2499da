#include "station/polling_turns.h"

#include <gtest/gtest.h>

namespace weft::station {
namespace {

constexpr Instant kStart{Duration::seconds(10)};

TEST(PollingTurns, AreTheApplicationsUntilTheThreadIsHot) {
  PollingTurns turns;
  EXPECT_EQ(turns.take_request_turn(0), RequestTurn::TakeAll);
  turns.begin_hot();
  EXPECT_EQ(turns.take_request_turn(0), RequestTurn::TakeNone);
  turns.end_hot();
  EXPECT_EQ(turns.take_request_turn(0), RequestTurn::TakeAll);
}

TEST(PollingTurns, TellTheApplicationOfASendOnce) {
  PollingTurns turns;
  turns.begin_hot();
  turns.note_waiting_send();
  turns.note_waiting_send();
  EXPECT_EQ(turns.take_request_turn(0), RequestTurn::TakeSends);
  EXPECT_EQ(turns.take_request_turn(0), RequestTurn::TakeNone);
}

TEST(PollingTurns, LetAnApplicationThatFindsNothingLookNowAndThen) {
  PollingTurns turns;
  turns.begin_hot();
  int looks = 0;
  for (std::uint32_t empty = 0; empty < 4 * PollingTurns::kPollsBetweenScans; ++empty) {
    looks += turns.take_request_turn(empty) == RequestTurn::TakeAll ? 1 : 0;
  }
  EXPECT_EQ(looks, 4);
}

TEST(PollingTurns, LeaveSendsForAMomentAndResponsesForLonger) {
  PollingTurns turns;
  turns.note_poll();
  turns.observe(kStart, true, false);
  EXPECT_TRUE(turns.leaves_sends());
  EXPECT_TRUE(turns.leaves_responses());
  turns.observe(kStart + PollingTurns::kFreshPoll, true, false);
  EXPECT_FALSE(turns.leaves_sends());
  EXPECT_TRUE(turns.leaves_responses());
  turns.observe(kStart + PollingTurns::kResponseGrace, true, false);
  EXPECT_FALSE(turns.leaves_responses());
  EXPECT_EQ(turns.polled_at(), kStart);
}

TEST(PollingTurns, LeaveNothingToAnApplicationThatIsAboutToWait) {
  PollingTurns turns;
  turns.note_poll();
  turns.observe(kStart, false, false);
  EXPECT_FALSE(turns.leaves_sends());
  EXPECT_FALSE(turns.leaves_responses());
  EXPECT_EQ(turns.polled_at(), kStart) << "the poll was seen all the same";
}

}  // namespace
}  // namespace weft::station
