#include "fabric/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace weft::fabric {
namespace {

using ::testing::HasSubstr;

class EveryGenerator : public ::testing::TestWithParam<const char*> {};

TEST_P(EveryGenerator, IsValidAndReadsBackFromItsOwnToml) {
  const auto topology = generate(GetParam());
  ASSERT_TRUE(topology) << topology.error().reason;
  const auto valid = validate(*topology);
  EXPECT_TRUE(valid) << valid.error().reason;
  const auto again = read_topology(write_topology(*topology));
  ASSERT_TRUE(again) << again.error().reason;
  EXPECT_EQ(*again, *topology);
}

INSTANTIATE_TEST_SUITE_P(Topologies, EveryGenerator,
                         ::testing::Values("pair", "star:2", "star 254", "fat-tree:2",
                                           "fat-tree:4:2", "fat-tree 8 3", "torus:4x4:2",
                                           "torus 2x3x4", "dragonfly:4:2:2", "dragonfly 2 1 1 2",
                                           "opa:fat-tree:4"));

TEST(Generate, CountsAreThoseOfAFatTree) {
  const auto two = generate_fat_tree(8, 2);
  EXPECT_EQ(two->hosts.size(), 32U);
  EXPECT_EQ(two->switches.size(), 12U);
  EXPECT_EQ(two->links.size(), 32U + 8 * 4);
  const auto three = generate_fat_tree(8, 3);
  EXPECT_EQ(three->hosts.size(), 128U);
  EXPECT_EQ(three->switches.size(), 80U);
  EXPECT_EQ(three->links.size(), 3 * 128U);
}

TEST(Generate, HostsOneAndFourOfTheSmallFatTreeAreOnDifferentLeaves) {
  const auto topology = generate("fat-tree:4:2");
  EXPECT_EQ(topology->links[0].b.node, 0U);
  EXPECT_EQ(topology->links[3].b.node, 1U);
}

TEST(Generate, RefusesWhatCannotBeBuiltAndSaysWhatCan) {
  EXPECT_THAT(generate_star(255).error().reason, HasSubstr("2 to 254"));
  EXPECT_THAT(generate_star(1).error().reason, HasSubstr("2 to 254"));
  EXPECT_THAT(generate_fat_tree(5).error().reason, HasSubstr("even"));
  EXPECT_THAT(generate_fat_tree(0).error().reason, HasSubstr("2..254"));
  EXPECT_THAT(generate_fat_tree(4, 4).error().reason, HasSubstr("2 or 3"));
  EXPECT_THAT(generate_fat_tree(58, 3).error().reason, HasSubstr("unicast LIDs"));
  EXPECT_TRUE(generate_fat_tree(56, 3));
  EXPECT_TRUE(generate_fat_tree(254, 2));
  EXPECT_THAT(generate("ring:4").error().reason, HasSubstr("fat-tree:K[:LEVELS]"));
  EXPECT_THAT(generate("star:x").error().reason, HasSubstr("'x' is not a number"));
  EXPECT_THAT(generate("star").error().reason, HasSubstr("star:N"));
  EXPECT_THAT(generate("pair:2").error().reason, HasSubstr("pair"));
  EXPECT_FALSE(names_a_generator("lab.toml"));
  EXPECT_TRUE(names_a_generator("fat-tree:4:2"));
}

TEST(Generate, MakesOmniPathOfAnyForm) {
  Topology star = *generate_star(4);
  set_link_type(star, LinkType::OmniPath);
  const auto generated = generate("opa:star:4");
  ASSERT_TRUE(generated) << generated.error().reason;
  EXPECT_EQ(*generated, star);
  EXPECT_TRUE(validate(star));
  EXPECT_EQ(generated->links[0].type, LinkType::OmniPath);
  EXPECT_TRUE(names_a_generator("opa pair"));
  EXPECT_FALSE(names_a_generator("opa"));
  EXPECT_FALSE(names_a_generator("opa:lab.toml"));
  EXPECT_FALSE(generate("opa:star"));
}

}  // namespace
}  // namespace weft::fabric
