#include "daemon/request_budget.h"

#include <gtest/gtest.h>

namespace weft::daemon {
namespace {

TEST(RequestBudget, AllowsABurstAndThenARate) {
  RequestBudget budget;
  const Instant start{Duration::seconds(100)};
  for (std::int64_t i = 0; i < RequestBudget::kBurst; ++i) {
    ASSERT_FALSE(budget.is_empty(start));
    budget.charge(1, start);
  }
  EXPECT_TRUE(budget.is_empty(start));
  std::int64_t granted = 0;
  for (int ms = 1; ms <= 1'000; ++ms) {
    while (!budget.is_empty(start + Duration::milliseconds(ms))) {
      budget.charge(1, start + Duration::milliseconds(ms));
      ++granted;
    }
  }
  EXPECT_NEAR(static_cast<double>(granted), RequestBudget::kPerSecond, 2);
}

TEST(RequestBudget, WhatCostsAPartOfAMessageMayComeOftener) {
  RequestBudget budget;
  const Instant start{Duration::seconds(100)};
  std::int64_t count = 0;
  for (; !budget.is_empty(start); ++count) {
    budget.charge(RequestBudget::kMessage / 4, start);
  }
  EXPECT_EQ(count, 4 * RequestBudget::kBurst / RequestBudget::kMessage);
}

TEST(RequestBudget, ADebtIsPaidFirst) {
  RequestBudget budget;
  const Instant start{Duration::seconds(100)};
  budget.charge(RequestBudget::kBurst + RequestBudget::kPerSecond, start);
  EXPECT_TRUE(budget.is_empty(start + Duration::milliseconds(999)));
  EXPECT_FALSE(budget.is_empty(start + Duration::milliseconds(1'010)));
  EXPECT_FALSE(budget.is_full(start + Duration::milliseconds(1'010)));
  EXPECT_TRUE(budget.is_full(start + Duration::seconds(10)));
}

}  // namespace
}  // namespace weft::daemon
