#include "agents/link_speeds.h"

#include <gtest/gtest.h>

namespace weft::agents {
namespace {

constexpr EnabledSpeeds kAll{.widths = 3, .speeds = 7, .extended = 3};

TEST(LinkSpeeds, AreAllThatIsSlowerToo) {
  EXPECT_EQ(supported_widths(kUnlimitedLink), 3);
  EXPECT_EQ(supported_speeds(kUnlimitedLink), 7);
  EXPECT_EQ(supported_extended_speeds(kUnlimitedLink), 3);
  EXPECT_EQ(supported_extended_speeds({.rate_mbps = 10'000, .width = 2, .speed = 1}), 0);
}

TEST(LinkSpeeds, AgreeOnTheFastestThatBothAllow) {
  EXPECT_EQ(negotiate(kAll, kAll, kUnlimitedLink), kUnlimitedLink);
  const auto fdr = negotiate(kAll, {.widths = 3, .speeds = 7, .extended = 1}, kUnlimitedLink);
  ASSERT_TRUE(fdr);
  EXPECT_EQ(fdr->rate_mbps, 56'000U);
  EXPECT_EQ(fdr->speed, 4);
  const auto ddr = negotiate({.widths = 1, .speeds = 3}, kAll, kUnlimitedLink);
  ASSERT_TRUE(ddr);
  EXPECT_EQ(*ddr, (fabric::LinkSpeed{.rate_mbps = 5'000, .width = 1, .speed = 2}));
}

TEST(LinkSpeeds, NeedSomethingInCommon) {
  EXPECT_FALSE(negotiate({.widths = 1, .speeds = 7}, {.widths = 2, .speeds = 7}, kUnlimitedLink));
  EXPECT_FALSE(negotiate({.widths = 1, .speeds = 1}, {.widths = 1, .speeds = 4}, kUnlimitedLink));
}

}  // namespace
}  // namespace weft::agents
