#include "wire/encodings.h"

#include <gtest/gtest.h>

namespace weft::wire {
namespace {

TEST(Credits, AreTheLargestCodeNotAboveTheFreeWqes) {  // T-RVT-3
  for (std::uint32_t free = 0; free <= 40'000; ++free) {
    std::uint8_t best = 0;
    for (std::uint8_t code = 0; code < kCreditTable.size(); ++code) {
      best = kCreditTable[code] <= free ? code : best;
    }
    ASSERT_EQ(credit_code(free), best);
  }
}

TEST(RnrTimer, IsTheSpecificationsTable) {
  EXPECT_EQ(rnr_timer(0), Duration::microseconds(655'360));  // 0 is the longest
  EXPECT_EQ(rnr_timer(1), Duration::microseconds(10));
  EXPECT_EQ(rnr_timer(31), Duration::microseconds(491'520));
  for (std::uint8_t code = 2; code < 32; ++code) {
    EXPECT_LT(kRnrTimerMicroseconds[code - 1U], kRnrTimerMicroseconds[code]) << unsigned{code};
  }
}

TEST(Mtu, IsAPowerOfTwoOf256To4096Bytes) {
  EXPECT_EQ(bytes(Mtu::Mtu256), 256U);
  EXPECT_EQ(bytes(Mtu::Mtu4096), 4096U);
}

}  // namespace
}  // namespace weft::wire
