#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>
#include <string>
#include <string_view>

#include "fabric/topology_graph.h"

namespace weft::fabric {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::size_t count(std::string_view text, std::string_view what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) {
    ++found;
  }
  return found;
}

class Drawing : public ::testing::TestWithParam<const char*> {};

TEST_P(Drawing, HasEveryNodeAtAPlaceOfItsOwnAndEveryCable) {
  const Topology topology = *generate(GetParam());
  const std::string svg = write_svg(topology);
  EXPECT_TRUE(svg.starts_with("<svg "));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_EQ(count(svg, "<line "), topology.links.size());
  EXPECT_EQ(count(svg, "class=\"port\""), 2 * topology.links.size());
  EXPECT_EQ(count(svg, "<ellipse "), topology.hosts.size());
  EXPECT_EQ(count(svg, "<rect "), topology.switches.size());
  EXPECT_THAT(svg, HasSubstr(">h1</text>"));
  EXPECT_THAT(svg, Not(HasSubstr("\"nan"))) << "a place that is no number";
  EXPECT_THAT(svg, Not(HasSubstr("\"-nan")));
  std::set<std::string> places;  // a shape starts with its position
  std::istringstream lines{svg};
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("<ellipse") || line.starts_with("<rect")) {
      EXPECT_TRUE(places.insert(line).second) << line;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Topologies, Drawing,
                         ::testing::Values("pair", "star:5", "fat-tree:4", "fat-tree:4:3",
                                           "torus:3x3x3:2", "dragonfly:4:2:2"));

}  // namespace
}  // namespace weft::fabric
