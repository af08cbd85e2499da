#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "fabric/topology.h"

namespace weft::fabric {
namespace {

using ::testing::HasSubstr;

TEST(LinkDefaults, HoldForLinksThatSayNothingThemselves) {
  Topology topology = *generate_star(3);
  topology.links[0].rate_gbps = 25;
  topology.links[1].delay = Duration::nanoseconds(7);
  ASSERT_TRUE(apply({.rate_gbps = 100, .delay = Duration::microseconds(5)}, topology));
  EXPECT_EQ(topology.links[0].rate_gbps, 25);
  EXPECT_EQ(topology.links[0].delay, Duration::microseconds(5));
  EXPECT_EQ(topology.links[1].rate_gbps, 100);
  EXPECT_EQ(topology.links[1].delay, Duration::nanoseconds(7));
}

TEST(LinkDefaults, ChangeNothingWhenTheySayNothing) {
  Topology topology = *generate_star(3);
  const Topology before = topology;
  ASSERT_TRUE(apply(LinkDefaults{}, topology));
  EXPECT_EQ(topology, before);
}

TEST(LinkDefaults, RefuseWhatNoLinkCanHave) {
  Topology topology = generate_pair();
  EXPECT_THAT(apply({.rate_gbps = 0.0, .delay = {}}, topology).error().reason, HasSubstr("0.001"));
  topology = generate_pair();
  EXPECT_THAT(apply({.rate_gbps = {}, .delay = Duration::seconds(2)}, topology).error().reason,
              HasSubstr("1,000,000,000"));
}

TEST(TimeScaleOf, TakesFactorsWithinItsLimitsOnly) {
  EXPECT_EQ(time_scale_of(0.1)->millionths(), 100'000U);
  EXPECT_EQ(time_scale_of(1), TimeScale{});
  for (const double factor :
       {0.0, -1.0, 0.0009, 1'001.0, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_FALSE(time_scale_of(factor)) << factor;
  }
}

}  // namespace
}  // namespace weft::fabric
