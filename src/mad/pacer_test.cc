#include "mad/pacer.h"

#include <gtest/gtest.h>

namespace weft::mad {
namespace {

TEST(Pacer, LetsABurstThroughAndThenOneAnInterval) {
  Pacer pacer{Duration::milliseconds(1), 3};
  Instant now{Duration::seconds(1)};
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(pacer.may_pass(now));
    pacer.pass(now);
  }
  EXPECT_FALSE(pacer.may_pass(now));
  EXPECT_EQ(pacer.next(), now + Duration::milliseconds(1));
  now = pacer.next();
  EXPECT_TRUE(pacer.may_pass(now));
  pacer.pass(now);
  EXPECT_FALSE(pacer.may_pass(now));
}

TEST(Pacer, HasNoLimitWithoutAnInterval) {
  Pacer pacer{Duration{}, 1};
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(pacer.may_pass(Instant{}));
    pacer.pass(Instant{});
  }
}

}  // namespace
}  // namespace weft::mad
