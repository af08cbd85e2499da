#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fabric/testing/running_fabric.h"
#include "fabric/topology.h"

namespace weft::fabric {
namespace {

using ::testing::HasSubstr;

constexpr EndPoint at(NodeKind kind, std::uint8_t port) { return {kind, 0, 0, PortNumber{port}}; }

TEST(Guids, FollowFromThePositionUnlessTheyAreSaid) {
  Topology topology = *generate("star:2");
  EXPECT_EQ(guid_of(topology, at(NodeKind::Host, 1)), make_guid(NodeKind::Host, 0, 0, 1));
  topology.hosts[0].hcas[0].guid = Guid{0x100};
  EXPECT_EQ(guid_of(topology, at(NodeKind::Host, 0)), Guid{0x100});
  EXPECT_EQ(guid_of(topology, at(NodeKind::Host, 1)), Guid{0x101});
  topology.hosts[0].hcas[0].ports[0].guid = Guid{0x100};
  EXPECT_EQ(guid_of(topology, at(NodeKind::Host, 1)), Guid{0x100});
  EXPECT_TRUE(validate(topology)) << "a port may have its HCA's";
  topology.switches[0].guid = Guid{0x200};
  EXPECT_EQ(guid_of(topology, at(NodeKind::Switch, 2)), Guid{0x200});
}

TEST(Guids, AreOfOneNodeAndOnePort) {
  Topology topology = *generate("star:2");
  topology.hosts[0].hcas[0].guid = topology.switches[0].guid = Guid{0x100};
  EXPECT_THAT(validate(topology).error().reason, HasSubstr("h1:0 and s1:0"));
  topology.switches[0].guid = Guid{0};
  EXPECT_THAT(validate(topology).error().reason, HasSubstr("not 0"));
  topology.switches[0].guid.reset();
  topology.hosts[0].hcas[0].ports[0].guid = make_guid(NodeKind::Host, 1, 0, 1);
  EXPECT_THAT(validate(topology).error().reason, HasSubstr("h1:1 and h2:1"));
}

}  // namespace
}  // namespace weft::fabric
