#include "programs/net/report.h"

#include <gtest/gtest.h>

#include <array>

namespace weft::programs::net {
namespace {

constexpr wire::IpoibHardwareAddress kHardware{
    .flags = wire::IpoibFlag::ReliableConnected,
    .qpn = Qpn{0x48},
    .gid = Gid{kDefaultGidPrefix, Guid{0x0257'4610'0001'0001}}
};
constexpr std::string_view kLink = "80:00:00:48:fe:80:00:00:00:00:00:00:02:57:46:10:00:01:00:01";

TEST(NetReport, ShowsTheLinkAddressInTheOrderOfItsOctets) {
  EXPECT_EQ(link_address_text(kHardware), kLink);
}

TEST(NetReport, ShowsAnInterfaceWithItsAddresses) {  // R-IPOIB-20
  const std::array addresses{parse_interface_address("10.77.0.1/16").value(),
                             parse_interface_address("fd77:1b::1/64").value()};
  const InterfaceView view{
      .name = "ib0",
      .is_up = true,
      .ports = {1},
      .active_port = 1,
      .mtu = 2044,
      .mode = ipoib::ConnectedMode::None,
      .hardware = kHardware,
      .pkey = kDefaultPKey,
      .broadcast = Gid{0xFF12'401B'FFFF'0000, Guid{0xFFFF'FFFF}},
      .qkey = QKey{0xB1B},
      .client_identifier = {std::byte{0xFF}, std::byte{0x20}},
      .addresses = addresses
  };
  EXPECT_EQ(show_addresses(view, false),
            "ib0: up, mtu 2044, datagram mode\n  link address " + std::string{kLink} +
                "\n  P_Key 0xffff, broadcast group ff12:401b:ffff::ffff:ffff with Q_Key "
                "0x00000b1b\n  DHCP client identifier ff:20\n  inet 10.77.0.1/16\n  inet6 "
                "fd77:1b::1/64\n");
  EXPECT_EQ(
      show_addresses(view, true),
      R"({"interface": "ib0", "up": true, "ports": [1], "active_port": 1, "mtu": 2044, "mode": "datagram", )"
      R"("link_address": ")" +
          std::string{kLink} +
          R"(", "pkey": 65535, "group": "ff12:401b:ffff::ffff:ffff", "qkey": "0x00000b1b", )"
          R"("dhcp_client_identifier": "ff:20", )"
          R"("addresses": ["10.77.0.1/16", "fd77:1b::1/64"]})"
          "\n");
}

TEST(NetReport, ShowsWhichPortCarriesAnInterfaceOfTwo) {  // R-IPOIB-30
  const InterfaceView view{
      .name = "bond0", .ports = {1, 2},
           .active_port = 2
  };
  EXPECT_EQ(show_addresses(view, false).find("mode\n  ports 1 and 2, of which 2 carries it\n"),
            std::string_view{"bond0: down, mtu 0, datagram "}.size());
  EXPECT_NE(show_addresses(view, true).find(R"("ports": [1, 2], "active_port": 2,)"),
            std::string::npos);
}

TEST(NetReport, SaysThatNoGroupIsJoined) {
  EXPECT_NE(show_addresses({.name = "ib0"}, false).find("no member of the broadcast group"),
            std::string::npos);
}

TEST(NetReport, ShowsNeighborsThatAreKnownAndThoseThatAreAskedFor) {
  const std::array<sa::NeighborTable::Entry, 2> neighbors{
      {{.address = IpAddress::v4(0x0A4D'0002),
        .hardware = kHardware,
        .left = Duration::milliseconds(29'900)},
       {.address = IpAddress::v4(0x0A4D'0003), .hardware = {}, .left = Duration::seconds(1)}}
  };
  EXPECT_EQ(show_neighbors(neighbors, false), "10.77.0.2 link address " + std::string{kLink} +
                                                  " for 29 s more\n10.77.0.3 is being asked for\n");
  EXPECT_EQ(show_neighbors(neighbors, true),
            R"([{"address": "10.77.0.2", "link_address": ")" + std::string{kLink} +
                R"(", "seconds_left": 29}, )"
                R"({"address": "10.77.0.3", "link_address": "", "seconds_left": 1}])"
                "\n");
  EXPECT_EQ(show_neighbors({}, true), "[]\n");
}

TEST(NetReport, ShowsCountersByName) {
  const std::array counts{
      NamedCount{"tx_packets", 3},
      NamedCount{"rx_packets", 4}
  };
  EXPECT_EQ(show_counts(counts, true), "{\"tx_packets\": 3, \"rx_packets\": 4}\n");
  EXPECT_NE(show_counts(counts, false).find("rx_packets"), std::string::npos);
}

}  // namespace
}  // namespace weft::programs::net
