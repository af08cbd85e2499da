#include "fabric/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "fabric/testing/running_fabric.h"

namespace weft::fabric {
namespace {

using ::testing::HasSubstr;

TEST(Validate, FindsWhatAProgramCouldBuildWrong) {
  const auto broken = [](auto change) {
    Topology topology = testing::many_ports();
    change(topology);
    const auto valid = validate(topology);
    return valid ? std::string{"it is valid"} : valid.error().reason;
  };
  EXPECT_THAT(broken([](Topology& t) { t.links[1].a = t.links[0].a; }), HasSubstr("two cables"));
  EXPECT_THAT(broken([](Topology& t) { t.links[0].a.node = 9; }), HasSubstr("do not exist"));
  EXPECT_THAT(broken([](Topology& t) { t.links[0].b.port = PortNumber{7}; }), HasSubstr("1..6"));
  EXPECT_THAT(broken([](Topology& t) { t.hosts[1].name = "s1"; }), HasSubstr("named s1"));
  EXPECT_THAT(broken([](Topology& t) { t.hosts[0].hcas.clear(); }), HasSubstr("HCAs"));
  EXPECT_THAT(broken([](Topology& t) { t.hosts[0].hcas[1].name = "weft0"; }), HasSubstr("weft0"));
  EXPECT_THAT(broken([](Topology& t) { t.hosts[0].hcas[0].ports[0].pkeys.clear(); }),
              HasSubstr("P_Keys"));
  EXPECT_THAT(broken([](Topology& t) { t.links[0].rate_gbps = 1e9; }), HasSubstr("Gb/s"));
  EXPECT_THAT(broken([](Topology& t) { t.subnet_prefix = 0xFF12'0000'0000'0000; }),
              HasSubstr("multicast"));
}

TEST(Guids, AreUniqueOverNodesHcasAndPorts) {
  std::set<Guid> guids;
  std::size_t made = 0;
  for (const NodeKind kind : {NodeKind::Host, NodeKind::Switch}) {
    for (const std::uint32_t node : {0U, 1U, 254U, 255U, 65535U, kMaxNodes - 1}) {
      for (const std::uint32_t hca : {0U, 1U, 253U}) {
        for (std::uint32_t port = 0; port <= 2; ++port) {
          guids.insert(make_guid(kind, node, hca, port));
          ++made;
        }
      }
    }
  }
  EXPECT_EQ(guids.size(), made);
}

TEST(Show, NamesNodesGuidsAndCables) {
  EXPECT_EQ(show(generate_pair()),
            "2 hosts, 0 switches, 1 links, subnet prefix 0xfe80000000000000\n"
            "host h1\n"
            "  weft0 node GUID 0x0257461000010000\n"
            "    port 1 GUID 0x0257461000010001 127.77.0.1 fd77::1 -> h2:1\n"
            "host h2\n"
            "  weft0 node GUID 0x0257461000020000\n"
            "    port 1 GUID 0x0257461000020001 127.77.0.2 fd77::2 -> h1:1\n");
}

}  // namespace
}  // namespace weft::fabric
