#include "iscsi/data_in_plan.h"

#include <gtest/gtest.h>

#include <vector>

namespace weft::iscsi {
namespace {

TEST(DataInPlan, TilesTheDataInSequencesOfOneBurst) {  // RFC 7143 §11.7.1, §13.13
  for (const std::size_t total : {1U, 511U, 512U, 513U, 4096U, 10000U}) {
    for (const std::size_t burst : {512U, 1000U, 4096U}) {
      for (const std::size_t segment : {512U, 700U, 8192U}) {
        std::size_t at = 0;
        std::size_t in_burst = 0;
        std::uint32_t data_sn = 0;
        bool ended = false;
        const DataInPlan plan{total, burst, segment};
        plan.for_each([&](const DataInPart& part) {
          EXPECT_FALSE(ended);
          EXPECT_EQ(part.data_sn, data_sn++);
          EXPECT_EQ(part.offset, at);
          EXPECT_GE(part.bytes, 1U);
          EXPECT_LE(part.bytes, segment);
          at += part.bytes;
          in_burst += part.bytes;
          EXPECT_LE(in_burst, burst);
          EXPECT_EQ(part.final, in_burst == burst || at == total);
          in_burst = part.final ? 0 : in_burst;
          ended = part.last;
        });
        EXPECT_TRUE(ended);
        EXPECT_EQ(at, total);
        EXPECT_EQ(plan.count(), data_sn);
      }
    }
  }
}

TEST(DataInPlan, OfNothingHasNoPart) { EXPECT_EQ((DataInPlan{0, 512, 512}.count()), 0U); }

}  // namespace
}  // namespace weft::iscsi
