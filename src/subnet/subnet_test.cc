#include "subnet/subnet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "subnet/rate.h"
#include "subnet/subnet_control.h"

namespace weft::subnet {
namespace {

wire::NodeInfo host(std::uint64_t guid, std::uint8_t ports = 1, std::uint8_t local_port = 1) {
  wire::NodeInfo info;
  info.node_guid = Guid{guid};
  info.port_guid = Guid{guid + local_port};
  info.port_count = ports;
  info.local_port = PortNumber{local_port};
  return info;
}

TEST(Subnet, FindsPortsByGuidLidWithPathBitsAndGid) {
  Subnet subnet;
  const NodeId node = subnet.add_node(host(0x100, 2, 2));
  const PortId port{node, PortNumber{2}};
  subnet.set_lids(port, Lid{8}, 2);
  EXPECT_EQ(subnet.find_node(Guid{0x100}), node);
  EXPECT_EQ(subnet.find_port(Guid{0x102}), port);
  EXPECT_FALSE(subnet.find_port(Guid{0x101}));
  EXPECT_FALSE(subnet.find_lid(Lid{7}));
  EXPECT_EQ(subnet.find_lid(Lid{8}), port);
  EXPECT_EQ(subnet.find_lid(Lid{11}), port);
  EXPECT_FALSE(subnet.find_lid(Lid{12}));
  EXPECT_EQ(subnet.highest_lid(), Lid{11});
  EXPECT_EQ(subnet.find_gid(subnet.gid_of(port)), port);
  subnet.port(port).guids = {Guid{0x102}, Guid{0x77}};
  EXPECT_EQ(subnet.find_gid(Gid(kDefaultGidPrefix, Guid{0x77})), port);
  EXPECT_FALSE(subnet.find_gid(Gid(kDefaultGidPrefix + 1, Guid{0x77})));
}

TEST(Subnet, LidsThatAPortGivesUpAreFree) {
  Subnet subnet;
  const PortId a{subnet.add_node(host(0x100)), PortNumber{1}};
  const PortId b{subnet.add_node(host(0x200)), PortNumber{1}};
  subnet.set_lids(a, Lid{4}, 1);
  subnet.set_lids(b, Lid{5}, 0);  // takes what is another's
  subnet.set_lids(a, Lid{2}, 0);
  EXPECT_EQ(subnet.find_lid(Lid{5}), b);
  EXPECT_FALSE(subnet.find_lid(Lid{4}));
  subnet.set_lids(b, Lid{}, 0);
  EXPECT_EQ(subnet.highest_lid(), Lid{2});
}

TEST(Rate, IsLanesTimesSpeedAndTheExtendedSpeedCounts) {
  wire::PortInfo info;
  info.link_width_active = 2;
  info.link_speed_active = 4;
  EXPECT_EQ(rate_of(info), 7);  // 40 Gb/s
  info.link_speed_ext_active = 2;
  EXPECT_EQ(rate_of(info), 16);  // 100 Gb/s
  info.link_speed_ext_active = 8;
  EXPECT_EQ(rate_of(info), 21);  // 400 Gb/s
  info.link_width_active = 1;
  info.link_speed_ext_active = 0;
  info.link_speed_active = 1;
  EXPECT_EQ(rate_of(info), 2);
  EXPECT_LT(rate_hundreds_of_mbps(11), rate_hundreds_of_mbps(6));
  EXPECT_EQ(rate_hundreds_of_mbps(1), 0U);
}

}  // namespace
}  // namespace weft::subnet
