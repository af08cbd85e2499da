#include "station/link_pace.h"

#include <gtest/gtest.h>

namespace weft::station {
namespace {

Instant at(std::int64_t us) { return Instant{Duration::microseconds(us)}; }

TEST(Readiness, IsNowForAPacketThatDidNotWait) {
  Readiness readiness;
  EXPECT_EQ(readiness.of_packet(at(100), false), at(100));
  readiness.must_wait(at(200));
  EXPECT_EQ(readiness.of_packet(at(300), false), at(300));
  EXPECT_EQ(readiness.of_packet(at(400), true), at(400)) << "that it waited is over";
}

TEST(Readiness, IsWhenTheFirstOfThoseWhoWaitHadTo) {
  Readiness readiness;
  readiness.must_wait(at(200));
  readiness.must_wait(at(250));
  EXPECT_EQ(readiness.of_packet(at(300), true), at(200));
  EXPECT_EQ(readiness.of_packet(at(301), true), at(200)) << "so do those behind it";
  readiness.forget();
  EXPECT_EQ(readiness.of_packet(at(310), true), at(310));
}

TEST(Readiness, IsBounded) {
  Readiness readiness;
  readiness.must_wait(at(0));
  const Instant late = at(0) + Readiness::kMaxLateness * 10;
  EXPECT_EQ(readiness.of_packet(late, true), late - Readiness::kMaxLateness);
}

TEST(LinkPace, CarryShorterTrains) {
  EXPECT_EQ(longest_train(0), kMaxTrainBytes);
  EXPECT_EQ(longest_train(100'000), kMaxTrainBytes);
  EXPECT_EQ(longest_train(500), 6'250U);
  EXPECT_EQ(longest_train(100), 1'250U) << "one packet, whatever the MTU";
}

TEST(LinkPace, LetASenderBeAheadByAtLeastATrain) {
  EXPECT_EQ(max_ahead(100), kMaxTrainBytes);
  EXPECT_EQ(max_ahead(100'000), 2'500'000U);
}

}  // namespace
}  // namespace weft::station
