#include "subnet/sa/budget.h"

#include <gtest/gtest.h>

#include "subnet/testing/sa_lab.h"
#include "wire/mad/path_record.h"
#include "wire/mad/sa_table_records.h"

namespace weft::subnet {
namespace {

constexpr Guid kPort{1};
constexpr Instant kStart{Duration::seconds(5)};

TEST(SaBudget, AllowsABurstAndThenSoMuchASecond) {
  SaBudget budget{
      {.burst_bytes = 1'000, .bytes_per_second = 100}
  };
  EXPECT_TRUE(budget.has_budget(kPort, kStart));
  budget.charge(kPort, 1'000, kStart);
  EXPECT_TRUE(budget.has_budget(kPort, kStart));
  budget.charge(kPort, 200, kStart);
  EXPECT_FALSE(budget.has_budget(kPort, kStart));
  EXPECT_TRUE(budget.has_budget(Guid{2}, kStart));
  EXPECT_FALSE(budget.has_budget(kPort, kStart + Duration::milliseconds(1'999)));
  EXPECT_TRUE(budget.has_budget(kPort, kStart + Duration::seconds(2)));
  budget.forget(kPort);
  EXPECT_TRUE(budget.has_budget(kPort, kStart));
}

TEST(SaBudget, KeepsAPortThatFloodsFromTheOthersTime) {
  SaLab lab{{.budget = {.burst_bytes = 10'000, .bytes_per_second = 1'000}}};
  const auto ask = [&](Lid from) {
    return lab.table<wire::LinkRecord>(from, wire::SaAttribute::LinkRecord).status;
  };
  SaStatusCode status = 0;
  int answered = 0;
  for (; status == 0 && answered < 100; ++answered) {
    status = ask(SaLab::kH3);
  }
  EXPECT_EQ(status, wire::kMadStatusBusy);
  EXPECT_LT(answered, 40);
  EXPECT_EQ(ask(SaLab::kH2), 0);
  lab.pass(Duration::seconds(3));
  EXPECT_EQ(ask(SaLab::kH3), 0);
}

TEST(SaBudget, CountsWorkThatGivesNoRecords) {
  SaLab lab{{.budget = {.burst_bytes = 10'000, .bytes_per_second = 1'000}}};
  SaStatusCode status = 0;
  int asked = 0;
  for (; asked < 100 && status == 0; ++asked) {
    status =
        lab.table(SaLab::kH3, wire::SaAttribute::PathRecord,
                  wire::PathRecord{.sl = ServiceLevel{9}}, wire::kComponent<wire::PathRecord, "SL">)
            .status;
  }
  EXPECT_LT(asked, 8) << "each pair of ports is work, and not only each port";
  EXPECT_EQ(status, wire::kMadStatusBusy);
}

}  // namespace
}  // namespace weft::subnet
