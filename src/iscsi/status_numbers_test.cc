#include "iscsi/status_numbers.h"

#include <gtest/gtest.h>

namespace weft::iscsi {
namespace {

using Verdict = StatusNumbers::Verdict;

TEST(StatusNumbers, AcknowledgeWhatHasComeWithoutAGap) {  // RFC 7143 §4.2.2.2
  StatusNumbers numbers{0xFFFF'FFFE};
  EXPECT_EQ(numbers.take(0xFFFF'FFFE), Verdict::New);
  EXPECT_EQ(numbers.take(0xFFFF'FFFF), Verdict::New);
  EXPECT_EQ(numbers.expected(), 0U);
  EXPECT_EQ(numbers.take(2), Verdict::New);
  EXPECT_EQ(numbers.expected(), 0U);
  EXPECT_EQ(numbers.take(0xFFFF'FFFF), Verdict::Again);
  EXPECT_EQ(numbers.take(2), Verdict::Again);
  EXPECT_EQ(numbers.take(0), Verdict::New);
  EXPECT_EQ(numbers.take(1), Verdict::New);
  EXPECT_EQ(numbers.expected(), 3U);
}

TEST(StatusNumbers, AreAskedForOnceUntilTheyAreAskedForAgain) {
  StatusNumbers numbers{10};
  EXPECT_EQ(numbers.take(12), Verdict::New);
  EXPECT_EQ(numbers.take(15), Verdict::New);
  EXPECT_EQ(numbers.next_to_ask(), (NumberRun{10, 2}));
  EXPECT_EQ(numbers.next_to_ask(), (NumberRun{13, 2}));
  EXPECT_EQ(numbers.next_to_ask(), std::nullopt);
  EXPECT_EQ(numbers.take(10), Verdict::New);
  numbers.ask_again();
  EXPECT_EQ(numbers.next_to_ask(), (NumberRun{11, 1}));
  EXPECT_EQ(numbers.next_to_ask(), (NumberRun{13, 2}));
}

TEST(StatusNumbers, AHeldOneIsNotAcknowledged) {
  StatusNumbers numbers{1};
  EXPECT_EQ(numbers.take(1, false), Verdict::New);
  EXPECT_EQ(numbers.take(2), Verdict::New);
  EXPECT_EQ(numbers.expected(), 1U);
  EXPECT_EQ(numbers.next_to_ask(), std::nullopt);
  EXPECT_EQ(numbers.take(1), Verdict::Again);
  numbers.settle(1);
  EXPECT_EQ(numbers.expected(), 3U);
  numbers.settle(1);  // acknowledged long ago
  EXPECT_EQ(numbers.expected(), 3U);
}

TEST(StatusNumbers, OneThatCameDamagedIsMissing) {
  StatusNumbers numbers{5};
  numbers.expect(6);
  EXPECT_EQ(numbers.next_to_ask(), (NumberRun{5, 2}));
  EXPECT_EQ(numbers.take(5), Verdict::New);
  numbers.expect(4);  // acknowledged long ago
  EXPECT_EQ(numbers.next_to_ask(), std::nullopt);
  EXPECT_EQ(numbers.expected(), 6U);
}

TEST(StatusNumbers, AreNotTakenFarAhead) {
  StatusNumbers numbers{0};
  EXPECT_EQ(numbers.take(StatusNumbers::kMaxAhead), Verdict::TooFar);
  EXPECT_EQ(numbers.take(StatusNumbers::kMaxAhead - 1), Verdict::New);
}

}  // namespace
}  // namespace weft::iscsi
