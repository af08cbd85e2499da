#include "hca/rc/credits.h"

#include <gtest/gtest.h>

namespace weft::hca {
namespace {

class RcCreditsFrom : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(RcCreditsFrom, LetsSoManyMessagesStartAsTheResponderHasReceivesFor) {  // T-RVT-4, R-RVT-10
  const Msn first{GetParam()};
  RcCredits credits;
  credits.start(false, first);
  constexpr std::uint8_t kThree = 3;
  credits.take({.syndrome = wire::Syndrome::ack(kThree), .msn = first});
  for (int i = 0; i < 4; ++i) {  // SSN <= MSN + 4: three, and one as a probe
    EXPECT_TRUE(credits.allow_next()) << i;
    credits.count(true);
  }
  EXPECT_FALSE(credits.allow_next());
  credits.count(false);  // a WRITE has a sequence number, but neither adds nor uses a credit
  EXPECT_FALSE(credits.allow_next());
  credits.take(
      {.syndrome = wire::Syndrome::nak(wire::NakCode::PsnSequenceError), .msn = first + 5});
  credits.take({.syndrome = wire::Syndrome::ack(0), .msn = first + 4});  // no change
  EXPECT_FALSE(credits.allow_next());
  credits.take({.syndrome = wire::Syndrome::ack(1), .msn = first + 5});
  EXPECT_TRUE(credits.allow_next());
  credits.count(true);
  credits.take({.syndrome = wire::Syndrome::ack(0), .msn = first + 1});  // an outdated one
  EXPECT_TRUE(credits.allow_next());
  credits.count(true);
  EXPECT_FALSE(credits.allow_next());
}

INSTANTIATE_TEST_SUITE_P(AcrossTheWrap, RcCreditsFrom, ::testing::Values(0, 0xFF'FFFE, 0xFF'FFF9));

TEST(RcCredits, AreWithoutLimitWhenTheResponderSaysSo) {
  RcCredits credits;
  credits.start(false);
  credits.count(true);
  EXPECT_FALSE(credits.allow_next());
  credits.take({.syndrome = wire::Syndrome::ack(wire::kUnlimitedCredits), .msn = Msn{0}});
  EXPECT_TRUE(credits.allow_next());
  credits.take({.syndrome = wire::Syndrome::ack(0), .msn = Msn{0}});
  EXPECT_TRUE(credits.allow_next());
}

}  // namespace
}  // namespace weft::hca
