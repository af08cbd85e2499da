#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "fabric/topology.h"

namespace weft::fabric {
namespace {

using ::testing::HasSubstr;

/// Number of cables between each pair of switches, the lower switch first.
std::map<std::pair<std::uint32_t, std::uint32_t>, int> trunks(const Topology& topology) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, int> counts;
  for (const LinkDescription& link : topology.links) {
    if (link.a.kind == NodeKind::Switch && link.b.kind == NodeKind::Switch) {
      ++counts[std::minmax(link.a.node, link.b.node)];
    }
  }
  return counts;
}

TEST(Torus, HasTwoNeighboursInEachDimension) {
  const auto topology = generate_torus({4, 3, 5}, 2);
  ASSERT_TRUE(topology) << topology.error().reason;
  EXPECT_EQ(topology->switches.size(), 60U);
  EXPECT_EQ(topology->hosts.size(), 120U);
  std::map<std::uint32_t, std::set<std::uint32_t>> neighbours;
  for (const auto& [pair, count] : trunks(*topology)) {
    EXPECT_EQ(count, 1);
    neighbours[pair.first].insert(pair.second);
    neighbours[pair.second].insert(pair.first);
  }
  for (std::uint32_t node = 0; node < 60; ++node) {
    const std::uint32_t x = node % 4;
    const std::uint32_t y = node / 4 % 3;
    const std::uint32_t z = node / 12;
    const auto at = [](std::uint32_t i, std::uint32_t j, std::uint32_t k) {
      return i % 4 + 4 * (j % 3) + 12 * (k % 5);
    };
    EXPECT_EQ(neighbours[node], (std::set{at(x + 1, y, z), at(x + 3, y, z), at(x, y + 1, z),
                                          at(x, y + 2, z), at(x, y, z + 1), at(x, y, z + 4)}));
  }
}

TEST(Torus, HasOneCableInADimensionOfTwo) {
  const auto topology = generate("torus:2x2");
  ASSERT_TRUE(topology) << topology.error().reason;
  EXPECT_EQ(trunks(*topology).size(), 4U);
  EXPECT_EQ(topology->links.size(), 4U + 4U);
}

TEST(Dragonfly, ConnectsGroupsFully) {
  const auto topology = generate_dragonfly(4, 2, 2);
  ASSERT_TRUE(topology) << topology.error().reason;
  EXPECT_EQ(topology->switches.size(), 9U * 4);  // a*h + 1 groups
  EXPECT_EQ(topology->hosts.size(), 9U * 4 * 2);
  std::map<std::pair<std::uint32_t, std::uint32_t>, int> groups;
  for (const auto& [pair, count] : trunks(*topology)) {
    EXPECT_EQ(count, 1);
    groups[{pair.first / 4, pair.second / 4}] += count;
  }
  for (std::uint32_t one = 0; one < 9; ++one) {
    EXPECT_EQ((groups[{one, one}]), 6);
    for (std::uint32_t other = one + 1; other < 9; ++other) {
      EXPECT_EQ((groups[{one, other}]), 1);
    }
  }
}

TEST(Dragonfly, HasParallelCablesWhereGroupsAreFew) {
  const auto topology = generate("dragonfly:4:1:2:3");
  ASSERT_TRUE(topology) << topology.error().reason;
  std::map<std::pair<std::uint32_t, std::uint32_t>, int> groups;
  for (const auto& [pair, count] : trunks(*topology)) {
    groups[{pair.first / 4, pair.second / 4}] += count;
  }
  EXPECT_EQ((groups[{0, 1}]), 4);
  EXPECT_EQ((groups[{1, 2}]), 4);
}

TEST(DirectNetworks, RefuseWhatCannotBeBuiltAndSayWhatCan) {
  EXPECT_THAT(generate("torus:4x1").error().reason, HasSubstr("at least 2"));
  EXPECT_THAT(generate("torus:2x2x2x2x2x2").error().reason, HasSubstr("1 to 5 dimensions"));
  EXPECT_THAT(generate("torus:4x4:0").error().reason, HasSubstr("leaves 1 to 250"));
  EXPECT_THAT(generate("torus:400x400").error().reason, HasSubstr("unicast LIDs"));
  EXPECT_THAT(generate("torus").error().reason, HasSubstr("torus:AxBxC"));
  EXPECT_THAT(generate("dragonfly:4:2").error().reason, HasSubstr("dragonfly:A:P:H"));
  EXPECT_THAT(generate("dragonfly:4:2:2:10").error().reason, HasSubstr("2 to 9 are"));
  EXPECT_THAT(generate("dragonfly:200:50:50").error().reason, HasSubstr("at most 254"));
  EXPECT_THAT(generate("dragonfly:32:16:16").error().reason, HasSubstr("513 groups"));
}

}  // namespace
}  // namespace weft::fabric
