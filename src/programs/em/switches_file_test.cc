#include "programs/em/switches_file.h"

#include <gtest/gtest.h>

#include <string>

namespace weft::programs::em {
namespace {

constexpr std::string_view kTwo = R"([[switch]]
name = "blue"
id = 100

[[switch.port]]
host = "h1"

[[switch.port]]
host = "h2"
mac = "00:11:75:00:00:02"
macs = ["00:11:75:00:01:02"]

[[switch]]
name = "red"
id = 200
fabric = 1
mtu = 4000
pkey = 0x8001
routing-control = 3
learning = "static"
filter-sources = true

[switch.unicast]
sc = [0, 1, 2, 3, 4, 5, 6, 7]
vl = [7, 6, 5, 4, 3, 2, 1, 0]
untagged-sc = 9
untagged-vl = 2

[[switch.port]]
host = "h2"
vport = 1
)";

std::string refusal(std::string_view text) {
  const auto file = parse_switches(text);
  return file ? "accepted" : file.error().reason;
}

TEST(SwitchesFile, SaysSwitchesAndTheirPorts) {
  const auto file = parse_switches(kTwo);
  ASSERT_TRUE(file) << file.error().reason;
  ASSERT_EQ(file->switches.size(), 2U);
  const auto& blue = file->switches[0];
  EXPECT_EQ(blue.mtu, opa_vnic::kDefaultEthMtu);
  EXPECT_EQ(blue.mac_source, opa_vnic::MacSource::Reported);
  ASSERT_EQ(blue.members.size(), 2U);
  EXPECT_EQ(blue.members[0].mac.number(), 0x0011'7506'4001U) << "the switch's number and the place";
  EXPECT_EQ(blue.members[1].mac.number(), 0x0011'7500'0002U);
  EXPECT_EQ(blue.members[1].more_macs.size(), 1U);
  const auto& red = file->switches[1];
  EXPECT_EQ(red.fabric_id, 1);
  EXPECT_EQ(red.mtu, 4000);
  EXPECT_EQ(red.pkey, PKey{0x8001});
  EXPECT_EQ(red.routing_control, 3U);
  EXPECT_EQ(red.mac_source, opa_vnic::MacSource::Configured);
  EXPECT_TRUE(red.filters_sources);
  EXPECT_EQ(red.unicast.sc[7], 7);
  EXPECT_EQ(red.unicast.vl[0], 7);
  EXPECT_EQ(red.unicast.untagged_sc, 9);
  EXPECT_EQ(red.multicast, opa_vnic::PriorityMap{});
  EXPECT_EQ(red.members[0].vport, 1);
}

TEST(SwitchesFile, HasOneNumberForAHost) {
  const auto file = parse_switches(kTwo).value();
  EXPECT_EQ(file.hosts.size(), 2U);
  EXPECT_EQ(file.switches[0].members[1].port, file.switches[1].members[0].port);
  EXPECT_EQ(file.host_of(file.switches[1].members[0].port), "h2");
  EXPECT_EQ(file.host_of(Guid{99}), "");
  EXPECT_EQ(file.hosts.at("h1"), guid_of_host("h1")) << "in whichever file and place";
  EXPECT_NE(guid_of_host("h1"), guid_of_host("h2"));
}

TEST(SwitchesFile, SaysWhatIsWrongAndWhere) {
  const std::string head = "[[switch]]\nname = \"a\"\nid = 1\n";
  const std::string port = "[[switch.port]]\nhost = \"h1\"\n";
  EXPECT_EQ(refusal(head + port), "accepted");
  EXPECT_NE(refusal("").find("no [[switch]]"), std::string::npos);
  EXPECT_NE(refusal(head).find("no [[switch.port]]"), std::string::npos);
  EXPECT_EQ(refusal(head + "speed = 1\n" + port), "line 4: unknown key 'speed'");
  EXPECT_NE(refusal(head + "mtu = 70000\n" + port).find("line 4: mtu"), std::string::npos);
  EXPECT_NE(refusal(head + "mtu = 20\n" + port).find("MTU 20"), std::string::npos);
  EXPECT_NE(refusal(head + "learning = \"never\"\n" + port).find("line 4"), std::string::npos);
  EXPECT_NE(refusal(head + port + "mac = \"nothing\"\n").find("line 6"), std::string::npos);
  EXPECT_NE(refusal(head + port + "mac = \"01:00:00:00:00:00\"\n").find("no station's"),
            std::string::npos);
  EXPECT_NE(refusal(head + port + port).find("twice"), std::string::npos);
  EXPECT_NE(refusal(head + port + head + port).find("switch a is there twice"), std::string::npos);
  EXPECT_NE(refusal("[[switch]]\nname = \"a\\\"\"\nid = 1\n" + port).find("name"),
            std::string::npos);
  EXPECT_NE(refusal(head + "[switch.unicast]\nsc = [1, 2]\n" + port).find("8 numbers"),
            std::string::npos);
  EXPECT_NE(refusal("[[switch]\n").find("line 1"), std::string::npos);
  EXPECT_NE(refusal("switch = [1]").find("a switch is a table"), std::string::npos);
}

TEST(SwitchesFile, IsNamedWhenItCannotBeRead) {
  const auto file = read_switches("/nowhere/switches.toml");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, ErrorCode::NotFound);
  EXPECT_NE(file.error().reason.find("/nowhere/switches.toml"), std::string::npos);
}

}  // namespace
}  // namespace weft::programs::em
