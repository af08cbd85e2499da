#include "iscsi/data_in_ledger.h"

#include <gtest/gtest.h>

namespace weft::iscsi {
namespace {

using Verdict = DataInLedger::Verdict;

TEST(DataInLedger, CountsWhatHasComeWithoutAGap) {
  DataInLedger ledger;
  EXPECT_EQ(ledger.take(0, 0, 512), Verdict::New);
  EXPECT_EQ(ledger.take(2, 1024, 100), Verdict::New);
  EXPECT_EQ(ledger.received(), 512U);
  EXPECT_TRUE(ledger.has_gap());
  EXPECT_EQ(ledger.take(2, 1024, 100), Verdict::Again);
  EXPECT_EQ(ledger.take(0, 0, 512), Verdict::Again);
  EXPECT_EQ(ledger.take(1, 512, 512), Verdict::New);
  EXPECT_EQ(ledger.received(), 1124U);
  EXPECT_EQ(ledger.next(), 3U);
  EXPECT_FALSE(ledger.has_gap());
}

TEST(DataInLedger, AsksForEachGapOnce) {  // RFC 7143 §11.16
  DataInLedger ledger;
  EXPECT_EQ(ledger.take(1, 512, 512), Verdict::New);
  EXPECT_EQ(ledger.take(4, 2048, 512), Verdict::New);
  ledger.expect(6);
  EXPECT_EQ(ledger.next_to_ask(), (NumberRun{0, 1}));
  EXPECT_EQ(ledger.next_to_ask(), (NumberRun{2, 2}));
  EXPECT_EQ(ledger.next_to_ask(), (NumberRun{5, 1}));
  EXPECT_EQ(ledger.next_to_ask(), std::nullopt);
  EXPECT_EQ(ledger.take(2, 1024, 512), Verdict::New);
  ledger.ask_again();
  EXPECT_EQ(ledger.next_to_ask(), (NumberRun{0, 1}));
  EXPECT_EQ(ledger.next_to_ask(), (NumberRun{3, 1}));
}

TEST(DataInLedger, APlaceThatDoesNotFollowIsWrong) {
  DataInLedger gap;
  EXPECT_EQ(gap.take(1, 600, 512), Verdict::New);
  EXPECT_EQ(gap.take(0, 0, 512), Verdict::Wrong);  // the next begins elsewhere
  DataInLedger overlap;
  EXPECT_EQ(overlap.take(0, 0, 512), Verdict::New);
  EXPECT_EQ(overlap.take(1, 0, 512), Verdict::Wrong);
  EXPECT_EQ(DataInLedger{}.take(DataInLedger::kMaxAhead, 0, 512), Verdict::Wrong);
}

TEST(DataInLedger, BeginsAnewBehindWhatHasCome) {
  DataInLedger ledger;
  EXPECT_EQ(ledger.take(0, 0, 512), Verdict::New);
  EXPECT_EQ(ledger.take(2, 1024, 512), Verdict::New);
  ledger.restart();
  EXPECT_FALSE(ledger.has_gap());
  EXPECT_EQ(ledger.take(1, 512, 512), Verdict::New);
  EXPECT_EQ(ledger.take(2, 1024, 512), Verdict::New);
  EXPECT_EQ(ledger.received(), 1536U);
}

}  // namespace
}  // namespace weft::iscsi
