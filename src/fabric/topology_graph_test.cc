#include "fabric/topology_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fabric/testing/running_fabric.h"

namespace weft::fabric {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Graph, HasEveryCableWithItsPorts) {
  const std::string dot = write_dot(*generate("fat-tree:4"));
  EXPECT_THAT(dot, HasSubstr("\"h8\" -- \"s4\" [taillabel=\"1\", headlabel=\"2\"];"));
  EXPECT_THAT(dot, HasSubstr("\"s4\" -- \"s6\" [taillabel=\"4\", headlabel=\"4\"];"));
}

TEST(Graph, PutsTheLevelsOfATreeInRows) {
  EXPECT_THAT(write_dot(*generate("fat-tree:4")), HasSubstr("{ rank=same; \"s5\"; \"s6\"; }"));
  EXPECT_THAT(write_dot(*generate("torus:4x4")), Not(HasSubstr("rank=same")));
}

TEST(Graph, NamesTheHcaThatIsNotTheFirst) {
  EXPECT_THAT(write_dot(testing::many_ports()), HasSubstr("\"weft1:"));
}

}  // namespace
}  // namespace weft::fabric
