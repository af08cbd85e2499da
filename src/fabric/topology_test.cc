#include "fabric/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "fabric/testing/running_fabric.h"

namespace weft::fabric {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string reason_of(std::string_view toml) {
  const auto topology = read_topology(toml, "lab.toml");
  return topology ? "it was read" : topology.error().reason;
}

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
                                           "fat-tree:4:2", "fat-tree 8 3"));

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

TEST(TopologyFile, RoundTripsEverythingThatCanBeSaid) {
  Topology topology = testing::many_ports();
  topology.subnet_prefix = 0xFEC0'0000'0000'0001;
  topology.hosts[0].addresses = {"10.0.0.1", "fd00::1"};
  topology.hosts[0].hcas[1].name = "storage";
  topology.hosts[0].hcas[1].ports[1].pkeys = {kDefaultPKey, PKey{0x8001}, PKey{0x0002}};
  topology.hosts[1].hcas[0].ports[0].max_mtu = wire::Mtu::Mtu512;
  topology.links[0].rate_gbps = 12.5;
  topology.links[0].delay = Duration::nanoseconds(1500);
  topology.links[1].rate_gbps = 100;
  const auto again = read_topology(write_topology(topology));
  ASSERT_TRUE(again) << again.error().reason;
  EXPECT_EQ(*again, topology);
}

TEST(TopologyFile, GivesAHostOneHcaWithOnePortUnlessToldOtherwise) {
  const auto topology = read_topology(R"(
[[link]]
a = "h1:1"
b = "h2/weft1:2"
[[host]]
name = "h1"
[[host]]
name = "h2"
[[host.hca]]
[[host.hca]]
ports = 2
)");
  ASSERT_TRUE(topology) << topology.error().reason;
  EXPECT_EQ(topology->hosts[0], make_host("h1"));
  EXPECT_EQ(topology->hosts[1].hcas[1].name, "weft1");
  EXPECT_EQ(topology->links[0].b, (EndPoint{NodeKind::Host, 1, 1, PortNumber{2}}));
}

TEST(TopologyFile, RefusesAMisspeltKeyWithItsLineAndTheNearestOne) {
  EXPECT_THAT(reason_of("[[host]]\nname = \"h1\"\n[[switch]]\nname = \"s1\"\nport = 4\n"),
              AllOf(HasSubstr("lab.toml:5: "), HasSubstr("did you mean 'ports'?")));
  EXPECT_THAT(reason_of("[[hosts]]\nname = \"h1\"\n"), HasSubstr("did you mean 'host'?"));
}

TEST(TopologyFile, ErrorsNameTheLineAndWhatWouldWork) {
  const std::string h1 = "[[host]]\nname = \"h1\"\n";
  const std::string pair = h1 + "[[host]]\nname = \"h2\"\n";  // 4 lines
  EXPECT_THAT(reason_of(""), HasSubstr("at least one host"));
  EXPECT_THAT(reason_of("host = 3"), HasSubstr("[[host]]"));
  EXPECT_THAT(reason_of("[[host]]\n"), HasSubstr("lab.toml:1: a host needs a name"));
  EXPECT_THAT(reason_of("[[host]]\nname = 5"), HasSubstr("in quotes"));
  EXPECT_THAT(reason_of("[[host]\n"), HasSubstr("lab.toml:1: "));
  EXPECT_THAT(reason_of("[[host]]\nname = \"a b\""), HasSubstr("lab.toml:2: "));
  EXPECT_THAT(reason_of(h1 + h1), HasSubstr("second node is named 'h1'"));
  EXPECT_THAT(reason_of(h1 + "[[host.hca]]\nports = 3\n"), HasSubstr("1..2"));
  EXPECT_THAT(reason_of(h1 + "[[host.hca]]\n[[host.hca.port]]\nlmc = 8\n"), HasSubstr("0..7"));
  EXPECT_THAT(reason_of(h1 + "[[host.hca]]\n[[host.hca.port]]\nmtu = 1500\n"), HasSubstr("2048"));
  EXPECT_THAT(reason_of(h1 + "[[host.hca]]\n[[host.hca.port]]\npkeys = [0x8000]\n"),
              HasSubstr("bit 15"));
  EXPECT_THAT(reason_of(h1 + "[[switch]]\nname = \"s1\"\nports = 255\n"), HasSubstr("1..254"));
  EXPECT_THAT(reason_of(h1 + "[[switch]]\nname = \"s1\"\n"), HasSubstr("ports = 36"));
  EXPECT_THAT(reason_of(pair + "[[link]]\na = \"h1:1\"\n"), HasSubstr("both ends"));
  EXPECT_THAT(reason_of(pair + "[[link]]\na = \"h1:1\"\nb = \"h3:1\"\n"),
              HasSubstr("lab.toml:7: no host or switch is named 'h3'"));
  EXPECT_THAT(reason_of(pair + "[[link]]\na = \"h1:1\"\nb = \"h2:2\"\n"), HasSubstr("1..1"));
  EXPECT_THAT(reason_of(pair + "[[link]]\na = \"h1\"\nb = \"h2:2\"\n"), HasSubstr("NODE:PORT"));
  EXPECT_THAT(reason_of(pair + "[[link]]\na = \"h1:1\"\nb = \"h1:1\"\n"),
              HasSubstr("lab.toml:7: h1:1 has a cable already, in line 6"));
  EXPECT_THAT(reason_of(pair + "[[link]]\na = \"h1:1\"\nb = \"h2:1\"\nrate_gbps = 0\n"),
              HasSubstr("above 0"));
  EXPECT_THAT(reason_of("subnet_prefix = \"fabric\"\n" + h1), HasSubstr("64 bits in hex"));
  EXPECT_THAT(reason_of(h1 + "addresses = [\"localhost\"]\n"), HasSubstr("no IPv4 or IPv6"));
}

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
            "    port 1 GUID 0x0257461000010001 -> h2:1\n"
            "host h2\n"
            "  weft0 node GUID 0x0257461000020000\n"
            "    port 1 GUID 0x0257461000020001 -> h1:1\n");
}

}  // namespace
}  // namespace weft::fabric
