#include "subnet/sa/rates.h"

#include <gtest/gtest.h>

namespace weft::subnet {
namespace {

using wire::Selector;

TEST(SaRates, AreOrderedByWhatTheyCarry) {
  EXPECT_EQ(next_slower(3), RateCode{5});
  EXPECT_EQ(next_slower(2), std::nullopt);
  EXPECT_EQ(slower_of(3, 5), 5);
  EXPECT_FALSE(is_rate(0));
  EXPECT_FALSE(is_rate(1));
  EXPECT_FALSE(is_rate(63));
}

TEST(SaSelectors, OfMtuGiveThePathOrLess) {
  EXPECT_EQ(choose_mtu(4, {}), 4);
  EXPECT_EQ(choose_mtu(4, {Selector::GreaterThan, 3}), 4);
  EXPECT_EQ(choose_mtu(4, {Selector::GreaterThan, 4}), std::nullopt);
  EXPECT_EQ(choose_mtu(4, {Selector::LessThan, 3}), 2);
  EXPECT_EQ(choose_mtu(2, {Selector::LessThan, 5}), 2);
  EXPECT_EQ(choose_mtu(4, {Selector::LessThan, 1}), std::nullopt);
  EXPECT_EQ(choose_mtu(4, {Selector::Exactly, 2}), 2);
  EXPECT_EQ(choose_mtu(4, {Selector::Exactly, 5}), std::nullopt);
  EXPECT_EQ(choose_mtu(4, {Selector::Best, 1}), 4);
}

TEST(SaSelectors, OfRateFollowTheRatesNotTheirCodes) {
  EXPECT_EQ(choose_rate(3, {}), 3);
  EXPECT_EQ(choose_rate(3, {Selector::GreaterThan, 5}), 3);  // 10 > 5 Gb/s though 3 < 5
  EXPECT_EQ(choose_rate(3, {Selector::GreaterThan, 3}), std::nullopt);
  EXPECT_EQ(choose_rate(3, {Selector::LessThan, 3}), 5);
  EXPECT_EQ(choose_rate(3, {Selector::LessThan, 2}), std::nullopt);
  EXPECT_EQ(choose_rate(7, {Selector::Exactly, 3}), 3);
  EXPECT_EQ(choose_rate(3, {Selector::Exactly, 7}), std::nullopt);
}

TEST(SaSelectors, OfLifeTimeGiveABoundThatHolds) {
  EXPECT_EQ(choose_life_time(18, {}), 18);
  EXPECT_EQ(choose_life_time(18, {Selector::GreaterThan, 17}), 18);
  EXPECT_EQ(choose_life_time(18, {Selector::GreaterThan, 18}), 19);
  EXPECT_EQ(choose_life_time(18, {Selector::GreaterThan, 63}), std::nullopt);
  EXPECT_EQ(choose_life_time(18, {Selector::LessThan, 18}), std::nullopt);
  EXPECT_EQ(choose_life_time(18, {Selector::LessThan, 19}), 18);
  EXPECT_EQ(choose_life_time(18, {Selector::Exactly, 20}), 20);
  EXPECT_EQ(choose_life_time(18, {Selector::Exactly, 17}), std::nullopt);
}

TEST(SaSelectors, OfAGroupCompareOnly) {
  EXPECT_TRUE(mtu_satisfies(4, {Selector::Exactly, 4}));
  EXPECT_FALSE(mtu_satisfies(4, {Selector::Exactly, 3}));
  EXPECT_TRUE(mtu_satisfies(4, {Selector::LessThan, 5}));
  EXPECT_FALSE(mtu_satisfies(4, {Selector::GreaterThan, 4}));
  EXPECT_TRUE(mtu_satisfies(4, {Selector::Best, 1}));
  EXPECT_TRUE(rate_satisfies(3, {Selector::GreaterThan, 5}));
  EXPECT_FALSE(rate_satisfies(3, {Selector::LessThan, 5}));
}

}  // namespace
}  // namespace weft::subnet
