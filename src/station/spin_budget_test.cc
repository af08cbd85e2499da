#include "station/spin_budget.h"

#include <gtest/gtest.h>

namespace weft::station {
namespace {

constexpr Instant kStart{Duration::seconds(10)};
constexpr Duration kMicrosecond = Duration::microseconds(1);

TEST(SpinBudget, IsSpentWhenNothingCameForSoLongAndNothingArrivesSoon) {
  SpinBudget budget{true, kStart};
  EXPECT_TRUE(budget.spins());
  EXPECT_FALSE(budget.is_spent(kStart + SpinBudget::kLeast - kMicrosecond, Instant::never()));
  const Instant later = kStart + SpinBudget::kLeast;
  EXPECT_TRUE(budget.is_spent(later, Instant::never()));
  EXPECT_FALSE(budget.is_spent(later, later + SpinBudget::kLeast - kMicrosecond));
  EXPECT_TRUE(budget.is_spent(later, later + SpinBudget::kLeast));
  budget.note_work(later);
  EXPECT_FALSE(budget.is_spent(later + kMicrosecond, Instant::never()));
}

TEST(SpinBudget, IsNoneWithoutCpus) {
  SpinBudget budget{false, kStart};
  EXPECT_FALSE(budget.spins());
  EXPECT_TRUE(budget.is_spent(kStart, Instant::never()));
  budget.note_nap(true);
  budget.begin_anew(false);
  EXPECT_FALSE(budget.spins());
}

TEST(SpinBudget, DoublesWithEachNapThatIsCutShortAndHalvesWithEachThatLasts) {
  SpinBudget budget{true, kStart};
  for (const int expected_us : {40, 80, 160}) {
    budget.note_nap(true);
    budget.begin_anew(false);
    EXPECT_EQ(budget.budget(), kMicrosecond * expected_us);
  }
  for (int nap = 0; nap < 10; ++nap) {
    budget.note_nap(true);
    budget.begin_anew(false);
  }
  EXPECT_EQ(budget.budget(), SpinBudget::kLongest);
  for (int nap = 0; nap < 10; ++nap) {
    budget.note_nap(false);
    budget.begin_anew(false);
  }
  EXPECT_EQ(budget.budget(), SpinBudget::kLeast);
}

TEST(SpinBudget, IsNoneInACrowdAndTheLeastAfterIt) {
  SpinBudget budget{true, kStart};
  budget.note_nap(true);
  budget.begin_anew(true);
  EXPECT_FALSE(budget.spins());
  budget.begin_anew(false);
  EXPECT_EQ(budget.budget(), SpinBudget::kLeast);
}

TEST(Contention, IsACrowdWhereTheCpuIsLostEveryFewMilliseconds) {
  Contention contention;
  EXPECT_FALSE(contention.is_contended(kStart, [] { return 1'000L; }))
      << "what was lost before it was first asked, in a long time";
  const Instant later = kStart + Contention::kPeriod + kMicrosecond;
  EXPECT_TRUE(contention.is_contended(later, [] { return 1'026L; }));
  EXPECT_TRUE(contention.is_contended(later + Contention::kPeriod, [] {
    ADD_FAILURE() << "asked twice in a period";
    return 0L;
  }));
  EXPECT_FALSE(contention.is_contended(later + Contention::kPeriod + kMicrosecond, [] {
    return 1'029L;
  })) << "a time slice now and then";
}

}  // namespace
}  // namespace weft::station
