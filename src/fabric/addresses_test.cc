#include "fabric/addresses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>

namespace weft::fabric {
namespace {

using ::testing::HasSubstr;

IpAddress ip(std::string_view text) { return parse_ip_address(text).value(); }

TEST(Addresses, OfAHostsFirstPortAreItsPosition) {  // docs/ARCHITECTURE.md, decision 16
  EXPECT_EQ(ipv4_of(0, 0), ip("127.77.0.1"));
  EXPECT_EQ(ipv4_of(254, 0), ip("127.77.0.255"));
  EXPECT_EQ(ipv4_of(11'663, 0), ip("127.77.45.144"));
  EXPECT_EQ(ipv4_of(65'534, 0), ip("127.77.255.255"));
  EXPECT_EQ(ipv4_of(65'535, 0), std::nullopt);
  EXPECT_EQ(ipv6_of(0, 0), ip("fd77::1"));
  EXPECT_EQ(ipv6_of(kMaxNodes - 1, 0), ip("fd77::f:ffff"));
}

TEST(Addresses, OfOtherPortsAreInBlocksOfTheirOwn) {
  EXPECT_EQ(ipv4_of(0, 1), ip("127.78.0.1"));
  EXPECT_EQ(ipv4_of(0, kMaxPortsWithIpv4 - 1), ip("127.254.0.1"));
  EXPECT_EQ(ipv4_of(0, kMaxPortsWithIpv4), std::nullopt);
  EXPECT_EQ(ipv6_of(0, 1), ip("fd77::1:0:0:1"));
  std::set<IpAddress> all;
  for (std::uint32_t host = 0; host < 300; ++host) {
    for (std::uint32_t port = 0; port < kMaxPortsWithIpv4; ++port) {
      EXPECT_TRUE(all.insert(*ipv4_of(host, port)).second);
      EXPECT_TRUE(all.insert(ipv6_of(host, port)).second);
    }
  }
}

TEST(Addresses, OfLinkLocalScopeAreMadeOfThePortsGuid) {  // RFC 4391 §8
  EXPECT_EQ(link_local_of(Guid{0x0008'F104'0396'0985}), ip("fe80::208:f104:396:985"));
  EXPECT_EQ(link_local_of(Guid{0x0257'4610'0001'0001}), ip("fe80::257:4610:1:1"));
}

TEST(Addresses, OfThePositionComeBeforeThoseOfTheTopology) {
  Topology topology;
  topology.hosts = {make_host("h1", 2, 2), make_host("h2")};
  topology.hosts[0].addresses = {*parse_interface_address("10.0.0.1/16")};
  topology.hosts[0].hcas[1].ports[1].addresses = {*parse_interface_address("fd00::1")};
  ASSERT_TRUE(validate(topology));
  const auto text_of = [&](std::uint32_t host, std::uint32_t port) {
    std::string text;
    for (const InterfaceAddress& address : addresses_of(topology, host, port)) {
      text += to_string(address) + " ";
    }
    return text;
  };
  EXPECT_EQ(text_of(0, 0), "127.77.0.1/8 fd77::1/48 fe80::257:4610:1:1/64 10.0.0.1/16 ");
  EXPECT_EQ(text_of(0, 3), "127.80.0.1/8 fd77::3:0:0:1/48 fe80::257:4610:1:102/64 fd00::1/64 ");
  EXPECT_EQ(text_of(0, 4), "");
  EXPECT_EQ(text_of(1, 0), "127.77.0.2/8 fd77::2/48 fe80::257:4610:2:1/64 ");
  EXPECT_EQ(main_address_of(topology, "h2"), ip("127.77.0.2"));
  EXPECT_EQ(main_address_of(topology, "h3"), std::nullopt);
}

TEST(Addresses, ThatATopologyMayNotGiveAreRefused) {
  const auto reason_of = [](std::string_view address) {
    Topology topology;
    topology.hosts = {make_host("h1"), make_host("h2")};
    topology.hosts[0].addresses = {*parse_interface_address(address)};
    const auto valid = validate(topology);
    return valid ? std::string{"taken"} : valid.error().reason;
  };
  EXPECT_EQ(reason_of("10.0.0.1"), "taken");
  EXPECT_EQ(reason_of("127.1.0.1"), "taken");
  EXPECT_THAT(reason_of("127.77.0.200"), HasSubstr("h1:1: 127.77.0.200 is no address"));
  EXPECT_THAT(reason_of("127.254.0.1"), HasSubstr("by their positions"));
  EXPECT_EQ(reason_of("127.255.0.1"), "taken");
  EXPECT_THAT(reason_of("fd77::77"), HasSubstr("by their positions"));
  EXPECT_EQ(reason_of("fd77:0:1::1"), "taken");
  EXPECT_THAT(reason_of("127.0.0.1"), HasSubstr("every host itself"));
  EXPECT_THAT(reason_of("::1"), HasSubstr("every host itself"));
  EXPECT_THAT(reason_of("0.0.0.0"), HasSubstr("no single host"));
  EXPECT_THAT(reason_of("224.0.0.1"), HasSubstr("no single host"));
  EXPECT_THAT(reason_of("::ffff:10.0.0.1"), HasSubstr("the IPv4 address itself"));
  EXPECT_THAT(reason_of("fe80::257:4610:2:1"), HasSubstr("h2:1 and h1:1 both have the address"));
  EXPECT_EQ(reason_of("fe80::5"), "taken");
}

TEST(Addresses, OfOnePortByPositionAreFoundFromEachOther) {
  for (const std::uint32_t host : {0U, 1U, 254U, 255U, kMaxHostsWithIpv4 - 1}) {
    for (const std::uint32_t port : {0U, 1U, kMaxPortsWithIpv4 - 1}) {
      const IpAddress v4 = *ipv4_of(host, port);
      const IpAddress v6 = ipv6_of(host, port);
      EXPECT_EQ(ipv4_beside(v6), v4);
      EXPECT_EQ(ipv6_beside(v4), v6);
      EXPECT_EQ(ipv4_beside(v4), v4);
      EXPECT_EQ(ipv6_beside(v6), v6);
    }
  }
  EXPECT_EQ(ipv4_beside(ipv6_of(kMaxHostsWithIpv4, 0)), std::nullopt) << "it has none";
  for (const char* none : {"fd77::", "fd77::1:1:0:1", "fd77::1:0:0", "fd78::1", "fe80::1", "::1"}) {
    EXPECT_EQ(ipv4_beside(*parse_ip_address(none)), std::nullopt) << none;
  }
  for (const char* none : {"127.0.0.1", "127.76.0.1", "127.255.0.1", "127.77.0.0", "10.77.0.1"}) {
    EXPECT_EQ(ipv6_beside(*parse_ip_address(none)), std::nullopt) << none;
  }
}

}  // namespace
}  // namespace weft::fabric
