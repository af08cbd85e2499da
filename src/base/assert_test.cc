#include "base/assert.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(SourceName, BeginsAtTheTopFolderOfTheCheckout) {
  EXPECT_STREQ(SourceName{"src/hca/qp.cc"}.text(), "src/hca/qp.cc");
  EXPECT_STREQ(SourceName{"../../src/hca/qp.cc"}.text(), "src/hca/qp.cc");
  EXPECT_STREQ(SourceName{"/usr/src/weft/src/hca/qp.cc"}.text(), "src/hca/qp.cc");
  EXPECT_STREQ(SourceName{"/somewhere/tests/crash/peer.cc"}.text(), "tests/crash/peer.cc");
  EXPECT_STREQ(SourceName{"other/main.cc"}.text(), "other/main.cc");
}

constexpr int half(int number) {
  WEFT_ASSERT(number % 2 == 0, "half of an odd number is none");
  return number / 2;
}
static_assert(half(4) == 2);

TEST(Assert, SaysWhatWasPromisedWhereAndWhyAndAborts) {
  EXPECT_EQ(half(6), 3);
  EXPECT_DEATH(static_cast<void>(half(3)),
               "src/base/assert_test.cc:[0-9]+: assertion failed: number % 2 == 0 "
               "\\(half of an odd number is none\\)");
  EXPECT_DEATH(static_cast<void>(half(3)), "(^|[^/])src/base/assert_test.cc") << "no whole path";
}

TEST(Assert, EvaluatesItsConditionOnce) {
  int times = 0;
  WEFT_ASSERT(++times == 1, "once");
  EXPECT_EQ(times, 1);
}

TEST(DebugAssert, IsAsTheOtherInTestsAndNotEvaluatedInReleaseBuilds) {
  int times = 0;
  WEFT_DEBUG_ASSERT(++times == 1, "once");
#ifdef NDEBUG
  EXPECT_EQ(times, 0);
#else
  EXPECT_EQ(times, 1);
  EXPECT_DEATH(WEFT_DEBUG_ASSERT(times == 0, "never"), "times == 0 \\(never\\)");
#endif
}

}  // namespace
}  // namespace weft
