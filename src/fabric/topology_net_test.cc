#include "fabric/topology_net.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "fabric/testing/omni_path_star.h"
#include "fabric/testing/running_fabric.h"

namespace weft::fabric {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string reason_of(std::string_view text) {
  const auto topology = read_net(text, "lab.net");
  return topology ? "it was read" : topology.error().reason;
}

/// In the style of ibsim's own examples.
constexpr std::string_view kOfIbsim = R"(# two switches, two cables between
Switch	8 "Switch1"
[1]	"Hca1"[1]
[2]	"Hca1"[2]
[3]	"Switch2"[3]	w=12

Switch 8 "Switch2"
[1] "Hca2"
[3]	"Switch1"[3]

Hca	2 "Hca1"
[1]	"Switch1"[1]
[2]	"Switch1"[2]

Hca	2 "Hca2"
[1]	"Switch2"[1]
)";

TEST(NetFile, IsReadAsIbsimReadsIt) {
  const auto topology = read_net(kOfIbsim);
  ASSERT_TRUE(topology) << topology.error().reason;
  ASSERT_EQ(topology->hosts.size(), 2U);
  EXPECT_EQ(topology->hosts[0].name, "Hca1");
  EXPECT_EQ(topology->hosts[0].hcas[0].ports.size(), 2U);
  EXPECT_EQ(topology->switches[1].name, "Switch2");
  EXPECT_EQ(topology->links.size(), 4U);
  // The GUIDs that ibsim 0.10 assigns, as ibnetdiscover on it shows.
  EXPECT_EQ(guid_of(*topology, {NodeKind::Host, 1, 0, PortNumber{0}}), Guid{0x10'0003});
  EXPECT_EQ(guid_of(*topology, {NodeKind::Host, 1, 0, PortNumber{1}}), Guid{0x10'0004});
  EXPECT_EQ(guid_of(*topology, {NodeKind::Switch, 1, 0, PortNumber{3}}), Guid{0x20'0001});
}

/// Output of ibnetdiscover.
constexpr std::string_view kDiscovered = R"(#
# Topology file: generated on Sat Nov 21 18:14:53 2026
#
# Initiated from node 0008f10403960984 port 0008f10403960985

vendid=0x2c9
devid=0xb924
sysimgguid=0x5442ba00003000
switchguid=0x5442ba00003080(5442ba00003080)
Switch	24 "S-005442ba00003080"		# "ISR9024 Voltaire" base port 0 lid 6 lmc 0
[22]	"H-0008f10403961354"[1](8f10403961355) 		# "h1 mlx4_0" lid 4 4xSDR
[23]	"H-0008f10403960984"[2](8f10403960990) 		# "h1 mlx4_1" lid 5 4xSDR

vendid=0x8f1
devid=0x5a44
sysimgguid=0x8f10403961357
caguid=0x8f10403961354
Ca	2 "H-0008f10403961354"		# "h1 mlx4_0"
[1](8f10403961355) 	"S-005442ba00003080"[22]		# lid 4 lmc 1 "ISR9024 Voltaire" lid 6 4xSDR

caguid=0x8f10403960984
Ca	2 "H-0008f10403960984"		# "h1 mlx4_1"
[2](8f10403960990) 	"S-005442ba00003080"[23]		# lid 5 lmc 0 "ISR9024 Voltaire" lid 6 4xSDR
)";

TEST(NetFile, IsReadAsIbnetdiscoverPrintsIt) {
  const auto topology = read_net(kDiscovered);
  ASSERT_TRUE(topology) << topology.error().reason;
  EXPECT_EQ(topology->switches[0].name, "S-005442ba00003080") << "its description is no name";
  ASSERT_EQ(topology->hosts.size(), 1U) << "Linux calls HCAs by their host and name";
  const HostDescription& host = topology->hosts[0];
  EXPECT_EQ(host.name, "h1");
  ASSERT_EQ(host.hcas.size(), 2U);
  EXPECT_EQ(host.hcas[1].name, "mlx4_1");
  EXPECT_EQ(host.hcas[0].ports[0].lmc, 1);
  EXPECT_EQ(host.hcas[1].ports[1].guid, Guid{0x8'F104'0396'0990});
  EXPECT_EQ(guid_of(*topology, {NodeKind::Host, 0, 1, PortNumber{1}}), Guid{0x8'F104'0396'0985});
  EXPECT_EQ(topology->links[1].b, (EndPoint{NodeKind::Host, 0, 1, PortNumber{2}}));
}

TEST(NetFile, IsToldFromTomlByItsFirstLine) {
  EXPECT_TRUE(looks_like_net(kOfIbsim));
  EXPECT_TRUE(looks_like_net(kDiscovered));
  EXPECT_FALSE(looks_like_net(write_topology(generate_pair())));
  EXPECT_FALSE(looks_like_net("# nothing\n\n"));
}

TEST(NetFile, ListsACableOnceOrTwice) {
  const auto topology =
      read_net("Switch 2 \"s\"\n[1] \"a\"\n\nCa 1 \"a\"\n\nCa 1 \"b\"\n[1] \"s\"[2]\n");
  ASSERT_TRUE(topology) << topology.error().reason;
  EXPECT_EQ(topology->links.size(), 2U);
}

class EveryNetForm : public ::testing::TestWithParam<const char*> {};

TEST_P(EveryNetForm, ReadsBackToTheSameFabric) {
  const auto topology = generate(GetParam());
  ASSERT_TRUE(topology) << topology.error().reason;
  const std::string text = write_net(*topology);
  const auto again = read_net(text);
  ASSERT_TRUE(again) << again.error().reason;
  EXPECT_EQ(again->links.size(), topology->links.size());
  EXPECT_EQ(write_net(*again), text);
  // The names of nodes are preserved, too.
  EXPECT_THAT(show(*again), StartsWith(show(*topology).substr(0, show(*topology).find('\n'))));
  EXPECT_EQ(again->hosts.back().name, topology->hosts.back().name);
}

INSTANTIATE_TEST_SUITE_P(Topologies, EveryNetForm,
                         ::testing::Values("pair", "star:5", "fat-tree:4", "torus:3x2x4:2",
                                           "dragonfly:3:1:2"));

TEST(NetFile, KeepsHcasPortsAndLmc) {
  Topology topology = testing::many_ports();
  topology.hosts[0].hcas[0].ports[0].lmc = 2;
  const auto again = read_net(write_net(topology));
  ASSERT_TRUE(again) << again.error().reason;
  EXPECT_EQ(write_net(*again), write_net(topology));
  EXPECT_EQ(again->hosts.size(), topology.hosts.size());
  EXPECT_EQ(again->hosts[0].hcas.size(), topology.hosts[0].hcas.size());
  EXPECT_EQ(again->hosts[0].hcas[0].ports[0].lmc, 2);
}

TEST(NetFile, RefusesWithTheLineAndWhatWouldWork) {
  EXPECT_THAT(reason_of("Switch 2 \"s\"\n[3] \"a\"\n"),
              AllOf(StartsWith("lab.net:2: "), HasSubstr("\"s\" has 1 to 2")));
  EXPECT_THAT(reason_of("Ca 1 \"a\"\n[1] \"b\"[1]\n"), HasSubstr("no node has the id \"b\""));
  EXPECT_THAT(reason_of("Ca 1 \"a\"\n[1] \"b\"[2]\n\nCa 1 \"b\"\n"), HasSubstr("no port 2"));
  EXPECT_THAT(reason_of("Ca 3 \"a\"\n"), HasSubstr("a Ca has 1 to 2"));
  EXPECT_THAT(reason_of("Ca 1 \"a\"\n\nCa 1 \"a\"\n"), HasSubstr("a second node has the id"));
  EXPECT_THAT(reason_of("Rt 1 \"a\"\n"), HasSubstr("routers are not possible"));
  EXPECT_THAT(reason_of("\n[1] \"a\"\n"), HasSubstr("lab.net:2: a port stands under"));
  EXPECT_THAT(reason_of("module 4\n"), HasSubstr("neither a node"));
  EXPECT_THAT(reason_of("caguid=x\n"), HasSubstr("64 bits in hex"));
  EXPECT_THAT(reason_of("Ca 1 \"a b c\"\n"), HasSubstr("will not do as a name"));
  EXPECT_THAT(reason_of("# empty\n"), HasSubstr("no node"));
  EXPECT_THAT(reason_of("Ca 1 \"a\"\n[1] \"b\"\n\nCa 1 \"b\"\n[1] \"c\"\n\nCa 1 \"c\"\n"),
              HasSubstr("another cable, in line 5"));
  EXPECT_THAT(reason_of("Ca 1 \"a\"\n[1] \"b\"\n[1] \"b\"\n"), HasSubstr("has a line already, 2"));
  EXPECT_THAT(reason_of("caguid=1\nCa 1 \"a\"\n\ncaguid=1\nCa 1 \"b\"\n"), HasSubstr("one GUID"));
}

TEST(NetFile, HasTheInfiniBandPartAlone) {
  const std::string text = write_net(testing::omni_path_beside_infiniband());
  const auto read = read_net(text);
  ASSERT_TRUE(read) << read.error().reason;
  EXPECT_EQ(read->hosts.size(), 2U);
  EXPECT_EQ(read->switches.size(), 1U);
  EXPECT_EQ(text.find("os1"), std::string::npos);
}

}  // namespace
}  // namespace weft::fabric
