#include "daemon/offences.h"

#include <gtest/gtest.h>

namespace weft::daemon {
namespace {

const ProgramName kLiar{.pid = 812, .program = "liar", .host = "h2", .slot = 3};
const ProgramName kVictim{.pid = 700, .program = "ib_send_lat", .host = "h1", .slot = 1};

TEST(Offences, NameWhoDidWhatAndHowOften) {
  Offences offences;
  EXPECT_EQ(offences.add(kLiar, "messages that are malformed"),
            "h2 process 812 (liar), slot 3: 1 messages that are malformed");
  EXPECT_EQ(offences.add_reported(kLiar, "records for QP0 or QP1", 7, kVictim),
            "h2 process 812 (liar), slot 3: 7 records for QP0 or QP1, says h1 process 700 "
            "(ib_send_lat), slot 1");
  EXPECT_EQ(to_string(ProgramName{.pid = 9, .program = "x", .host = {}}), "process 9 (x)");
  ASSERT_EQ(offences.all().size(), 2U);
  EXPECT_EQ(offences.all()[1].count, 7U);
}

TEST(Offences, ReportAFloodInAFewLines) {
  Offences offences;
  int lines = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    lines += offences.add(kLiar, "messages that are malformed") ? 1 : 0;
  }
  EXPECT_EQ(lines, 7);
  EXPECT_FALSE(offences.add_reported(kLiar, "records", 0, kVictim));
  EXPECT_TRUE(offences.add_reported(kLiar, "records", 5'000'000, kVictim));
  EXPECT_FALSE(offences.add_reported(kLiar, "records", 5'000'001, kVictim));
  EXPECT_FALSE(offences.add_reported(kLiar, "records", 4, kVictim)) << "a count never falls";
}

TEST(Offences, TellALimitedPartOfWhatOneProcessSays) {
  Offences offences;
  unsigned lines = 0;
  for (pid_t pid = 1; pid < 200; ++pid) {
    const ProgramName innocent{.pid = pid, .program = "innocent", .host = "h1"};
    lines += offences.add_reported(innocent, "records", 5, kLiar) ? 1U : 0U;
  }
  EXPECT_EQ(lines, Offences::kMaxReportedLines);
  EXPECT_TRUE(offences.add_reported(kLiar, "records", 5, kVictim));
}

TEST(Offences, LetSmallNumbersPassWhereTheyAreNoSin) {
  Offences offences;
  for (int i = 1; i < 100; ++i) {
    EXPECT_FALSE(offences.add(kLiar, "questions for nobody", 1, 100));
  }
  EXPECT_TRUE(offences.add(kLiar, "questions for nobody", 1, 100));
}

TEST(Offences, AreCountedTogetherBeyondALimit) {
  Offences offences;
  for (pid_t pid = 1; pid < 2'000; ++pid) {
    static_cast<void>(offences.add({.pid = pid, .program = "liar", .host = {}}, "lies"));
  }
  EXPECT_EQ(offences.all().size(), Offences::kMax + 1);
  EXPECT_EQ(offences.all().back().count, 1'999U - Offences::kMax);
}

}  // namespace
}  // namespace weft::daemon
