#include "fabric/topology.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "fabric/testing/running_fabric.h"
#include "verbs/mtu.h"

namespace weft::fabric {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string reason_of(std::string_view toml) {
  const auto topology = read_topology(toml, "lab.toml");
  return topology ? "it was read" : topology.error().reason;
}

TEST(TopologyFile, RoundTripsEverythingThatCanBeSaid) {
  Topology topology = testing::many_ports();
  topology.subnet_prefix = 0xFEC0'0000'0000'0001;
  topology.time_scale = TimeScale{12'345};
  topology.hosts[0].addresses = {*parse_interface_address("10.0.0.1/16"),
                                 *parse_interface_address("fd00::1")};
  topology.hosts[0].hcas[1].ports[0].addresses = {*parse_interface_address("127.1.2.3/8")};
  topology.hosts[0].hcas[1].name = "storage";
  topology.hosts[0].hcas[1].ports[1].pkeys = {kDefaultPKey, PKey{0x8001}, PKey{0x0002}};
  topology.hosts[1].hcas[0].ports[0].max_mtu = verbs::Mtu::Mtu512;
  topology.links[0].rate_gbps = 12.5;
  topology.links[0].delay = Duration::nanoseconds(1500);
  topology.links[1].rate_gbps = 100;
  topology.hosts[0].hcas[0].guid = Guid{0x8'F104'0396'0984};
  topology.hosts[0].hcas[0].ports[0].guid = Guid{0x8'F104'0396'0990};
  topology.hosts[0].hcas[1].functions = {
      {.name = "web"},
      {.name = "store",
       .pkeys = {PKey{0x8001}, PKey{0x0002}},
       .quotas = {.mads_per_second = 100, .groups = 8},
       .is_trusted = true},
      {.name = "log", .quotas = {.groups = 1}}
  };
  topology.switches[0].guid = Guid{1};
  topology.faults = {*read_fault("drop p=0.01"), *read_fault("down link=h1/storage:1 for=5ms")};
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

TEST(TopologyFile, NamesVirtualFunctionsAfterTheirHostUnlessToldOtherwise) {
  const auto with = [](std::string_view first, std::string_view second) {
    return fmt::format(R"(
[[host]]
name = "h1"
[[host.hca]]
vfs = {}
[[host.hca]]
vfs = {}
ports = 2
[[host]]
name = "h2"
)",
                       first, second);
  };
  const auto topology = read_topology(with("2", "[\"web\"]"));
  ASSERT_TRUE(topology) << topology.error().reason;
  const auto named = [](std::string_view name) {
    return ::testing::Field(&PlannedFunction::name, name);
  };
  EXPECT_THAT(topology->hosts[0].hcas[0].functions, ElementsAre(named("h1v1"), named("h1v2")));
  EXPECT_THAT(topology->hosts[0].hcas[1].functions, ElementsAre(named("web")));
  EXPECT_TRUE(topology->hosts[1].hcas[0].functions.empty());
  EXPECT_THAT(read_topology(with("[\"web\"]", "1"))->hosts[0].hcas[1].functions,
              ElementsAre(named("h1v2")));
  EXPECT_THAT(show(*topology), HasSubstr("virtual functions h1v1 h1v2\n"));
  EXPECT_THAT(reason_of(with("248", "0")), HasSubstr("lab.toml:5: "));
  EXPECT_THAT(reason_of(with("240", "8")), HasSubstr("at most 247"));
  EXPECT_THAT(reason_of(with("[1]", "0")), HasSubstr("'vfs' is a number"));
  const auto given = read_topology(
      with("[\"web\", { name = \"store\", pkeys = [0x8005], mads = 9, groups = 2 }]", "0"));
  ASSERT_TRUE(given) << given.error().reason;
  EXPECT_THAT(given->hosts[0].hcas[0].functions,
              ElementsAre(
                  PlannedFunction{
                      .name = "web"
  },
                  PlannedFunction{.name = "store",
                                  .pkeys = {PKey{0x8005}},
                                  .quotas = {.mads_per_second = 9, .groups = 2}}));
  EXPECT_THAT(reason_of(with("[{ pkeys = [1] }]", "0")), HasSubstr("needs a name"));
  EXPECT_THAT(reason_of(with("[{ name = \"a\", mad = 1 }]", "0")), HasSubstr("'mads'"));
  EXPECT_THAT(reason_of(with("[{ name = \"a\", pkeys = [0x8000] }]", "0")),
              HasSubstr("not 0x8000"));
  EXPECT_THAT(reason_of(with("[{ name = \"a\", groups = -1 }]", "0")), HasSubstr("'groups'"));
  EXPECT_THAT(reason_of(with("[\"h2\"]", "0")), HasSubstr("two nodes are named h2"));
  EXPECT_THAT(reason_of(with("[\"-\"]", "0")), HasSubstr("host name '-' will not do"));
}

TEST(TopologyFile, RefusesAMisspeltKeyWithItsLineAndTheNearestOne) {
  EXPECT_THAT(reason_of("[[host]]\nname = \"h1\"\n[[switch]]\nname = \"s1\"\nport = 4\n"),
              AllOf(HasSubstr("lab.toml:5: "), HasSubstr("did you mean 'ports'?")));
  EXPECT_THAT(reason_of("[[hosts]]\nname = \"h1\"\n"), HasSubstr("did you mean 'host'?"));
}

TEST(TopologyFile, HasOmniPathBesideInfiniBand) {
  const std::string text = R"(
[[host]]
name = "h1"
[[host.hca]]
[[host.hca]]
link = "opa"
[[host]]
name = "h2"
link = "opa"
[[switch]]
name = "s1"
ports = 2
link = "opa"
[[link]]
a = "h1/weft1:1"
b = "s1:1"
[[link]]
a = "h2:1"
b = "s1:2"
link = "opa"
)";
  const auto topology = read_topology(text);
  ASSERT_TRUE(topology) << topology.error().reason;
  EXPECT_EQ(topology->hosts[0].hcas[0].link_type, LinkType::InfiniBand);
  EXPECT_EQ(topology->hosts[0].hcas[1].link_type, LinkType::OmniPath);
  EXPECT_EQ(topology->hosts[1].hcas[0].link_type, LinkType::OmniPath);
  EXPECT_EQ(topology->switches[0].link_type, LinkType::OmniPath);
  EXPECT_EQ(topology->links[0].type, LinkType::OmniPath);
  const auto again = read_topology(write_topology(*topology));
  ASSERT_TRUE(again) << again.error().reason;
  EXPECT_EQ(*again, *topology);
  EXPECT_THAT(show(*topology), HasSubstr("  weft1 node GUID 0x0257461000010100 OmniPath\n"));
  EXPECT_THAT(show(*topology), HasSubstr("switch s1 node GUID 0x0257462000010000 OmniPath\n"));
}

TEST(TopologyFile, RefusesLinksBetweenPortsOfDifferentTypes) {
  const auto pair = [](std::string_view h1, std::string_view link) {
    return fmt::format(
        "[[host]]\nname = \"h1\"\n{}\n[[host]]\nname = \"h2\"\n"
        "[[link]]\na = \"h1:1\"\nb = \"h2:1\"\n{}\n",
        h1, link);
  };
  EXPECT_TRUE(read_topology(pair("", "link = \"infiniband\"")));
  EXPECT_TRUE(read_topology(pair("", "type = \"InfiniBand\"")));
  EXPECT_THAT(
      reason_of(pair("link = \"opa\"", "")),
      HasSubstr("h1:1 is a port of type OmniPath, and h2:1 of type InfiniBand: a link joins "
                "ports of one type; give both nodes link = \"opa\""));
  EXPECT_THAT(reason_of(pair("", "link = \"opa\"")),
              HasSubstr("the link at h1:1 is of type OmniPath, and the ports that it joins are of "
                        "type InfiniBand"));
  EXPECT_THAT(reason_of(pair("", "type = \"OmniPath\"")), HasSubstr("is of type OmniPath"));
  EXPECT_THAT(reason_of(pair("link = \"ethernet\"", "")),
              HasSubstr("h1/weft0 has links of type Ethernet; nothing sends on those yet"));
  EXPECT_THAT(reason_of(pair("", "link = \"token-ring\"")),
              HasSubstr("lab.toml:9: no link is of type 'token-ring'; \"infiniband\" and \"opa\""));
}

TEST(TopologyFile, RefusesWhatAnOmniPathPortHasNot) {
  const auto hca = [](std::string_view more) {
    return fmt::format("[[host]]\nname = \"h1\"\nlink = \"opa\"\n[[host.hca]]\n{}\n", more);
  };
  EXPECT_THAT(reason_of(hca("vfs = 1")), HasSubstr("h1/weft0: an Omni-Path HCA has no virtual"));
  EXPECT_THAT(reason_of(hca("[[host.hca.port]]\nlmc = 1")),
              HasSubstr("one LID and an MTU of 10240"));
  EXPECT_THAT(reason_of(hca("[[host.hca.port]]\nmtu = 2048")), HasSubstr("leave lmc and mtu out"));
}

TEST(TopologyFile, RefusesForeignLettersOutsideStringsAndComments) {
  EXPECT_THAT(reason_of("\n[[host\u0417]]\n"), HasSubstr("lab.toml:2: only ASCII"));
  EXPECT_THAT(reason_of("h\u00F6st = 1"), HasSubstr("lab.toml:1: only ASCII"));
  const std::string h1 = "# K\u00F6ln, \"half\n[[host]]\nname = \"h1\"  # it's h1\n";
  EXPECT_THAT(reason_of(h1 + "[[host]]\nname = \"h\u00F6\"\n"), HasSubstr("lab.toml:5: "));
  EXPECT_THAT(
      reason_of(h1 + "addresses = ['\u00F6', \"\\\"\u00F6\", \"\"\"a\"\n\u00F6\"\"\"]\n\u00F6"),
      HasSubstr("lab.toml:6: only ASCII"));
}

TEST(TopologyFile, ErrorsNameTheLineAndWhatWouldWork) {
  const std::string h1 = "[[host]]\nname = \"h1\"\n";
  const std::string pair = h1 + "[[host]]\nname = \"h2\"\n";  // 4 lines
  EXPECT_THAT(reason_of(""), HasSubstr("at least one host"));
  EXPECT_THAT(reason_of("host = 3"), HasSubstr("[[host]]"));
  EXPECT_THAT(reason_of("[[host]]\n"), HasSubstr("lab.toml:1: a host needs a name"));
  EXPECT_THAT(reason_of("[[host]]\nname = 5"), HasSubstr("in quotes"));
  EXPECT_THAT(reason_of("[[host]\n"), HasSubstr("lab.toml:1: "));
  EXPECT_THAT(reason_of("\n[&"), HasSubstr("lab.toml:2: "));  // found by topology_fuzz
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
  EXPECT_THAT(reason_of("time_scale = 0\n" + h1), HasSubstr("lab.toml:1: a time scale is"));
  EXPECT_THAT(reason_of("time_scale = \"fast\"\n" + h1), HasSubstr("0.1 for timeouts of a tenth"));
  EXPECT_THAT(reason_of("faults = \"drop\"\n" + h1), HasSubstr("an array of strings"));
  EXPECT_THAT(reason_of("faults = [\"drop\",\n 5]\n" + h1), HasSubstr("lab.toml:2: fault"));
  EXPECT_THAT(reason_of("faults = [\"lose\"]\n" + h1), HasSubstr("'lose' is no kind"));
  EXPECT_THAT(reason_of("faults = [\"drop out=h1:1\"]\n" + h1), HasSubstr("no cabled port h1:1"));
  EXPECT_THAT(reason_of("subnet_prefix = \"fabric\"\n" + h1), HasSubstr("64 bits in hex"));
  EXPECT_THAT(reason_of(h1 + "addresses = [\"localhost\"]\n"), HasSubstr("not an IPv4 or IPv6"));
  EXPECT_THAT(reason_of(h1 + "addresses = [\"10.0.0.1/40\"]\n"), HasSubstr("has 0 to 32 bits"));
  EXPECT_THAT(reason_of(h1 + "addresses = [\"127.77.0.9\"]\n"), HasSubstr("by their positions"));
}

TEST(TopologyFile, GivesAddressesToAHostsFirstPortOrToOnePort) {
  const auto topology = read_topology(R"(
[[host]]
name = "h1"
addresses = ["10.0.0.1/16"]
[[host.hca]]
[[host.hca.port]]
[[host.hca.port]]
addresses = ["10.1.0.1", "fd00::1"]
)");
  ASSERT_TRUE(topology) << topology.error().reason;
  EXPECT_EQ(topology->hosts[0].addresses, std::vector{*parse_interface_address("10.0.0.1/16")});
  EXPECT_EQ(topology->hosts[0].hcas[0].ports[1].addresses,
            (std::vector{*parse_interface_address("10.1.0.1/24"),
                         *parse_interface_address("fd00::1/64")}));
}

TEST(TopologyFile, RefusesAnAddressThatAnotherPortHas) {
  EXPECT_THAT(reason_of("[[host]]\nname = \"h1\"\naddresses = [\"10.0.0.1\"]\n"
                        "[[host]]\nname = \"h2\"\naddresses = [\"10.0.0.1/8\"]\n"),
              HasSubstr("h1:1 and h2:1 both have the address 10.0.0.1"));
}

}  // namespace
}  // namespace weft::fabric
