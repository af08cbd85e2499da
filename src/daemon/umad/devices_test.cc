#include "daemon/umad/devices.h"

#include <gtest/gtest.h>

namespace weft::daemon {
namespace {

class UmadDevices : public ::testing::Test {
 protected:
  static fabric::Topology topology() {
    fabric::Topology star = *fabric::generate("star:2");
    star.hosts[0] = fabric::make_host("h1", 2, 2);
    return star;
  }
  std::vector<std::byte> image{fabric::TablesBuilder{topology()}.build(1)};
  fabric::TablesView view{*fabric::TablesView::open(image)};
  fabric::NodeIndex h1{*view.find_node("h1")};
  fabric::NodeIndex s1{*view.find_node("s1")};
};

TEST_F(UmadDevices, AreTheHcasOfAHostWithPortsFromOne) {
  EXPECT_EQ(umad_devices(view, h1), (std::vector<std::string>{"weft0", "weft1"}));
  EXPECT_EQ(umad_ports(view, h1, "weft1")->size(), 2U);
  const auto port = umad_port(view, h1, "weft1", PortNumber{2});
  ASSERT_TRUE(port);
  EXPECT_EQ(*port, view.find_port(h1, PortNumber{2}, 1));
  EXPECT_FALSE(umad_port(view, h1, "weft1", PortNumber{0}));
  EXPECT_FALSE(umad_port(view, h1, "weft1", PortNumber{3}));
  EXPECT_FALSE(umad_ports(view, h1, "weft2"));
}

TEST_F(UmadDevices, OfASwitchAreItsPort0) {
  EXPECT_EQ(umad_devices(view, s1), std::vector<std::string>{"weft0"});
  EXPECT_EQ(*umad_ports(view, s1, "weft0"), std::vector{view.node(s1).first_port});
  EXPECT_TRUE(umad_port(view, s1, "weft0", PortNumber{0}));
  EXPECT_FALSE(umad_port(view, s1, "weft0", PortNumber{1}));
}

TEST(UmadPortRate, IsWhatTheKernelPrints) {
  wire::PortInfo info;
  info.link_width_active = 2;  // 4x
  info.link_speed_active = 1;
  EXPECT_EQ(gigabits(info), 10U);
  info.link_speed_active = 4;
  EXPECT_EQ(gigabits(info), 40U);
  info.link_speed_ext_active = 1;
  EXPECT_EQ(gigabits(info), 56U);
  info.link_speed_ext_active = 8;
  EXPECT_EQ(gigabits(info), 400U);
  info = {};
  info.link_width_active = 1;
  info.link_speed_active = 1;
  EXPECT_EQ(gigabits(info), 2U);  // 2.5
}

TEST_F(UmadDevices, SayWhatPortInfoSays) {
  wire::PortInfo info;
  info.lid = Lid{3};
  info.lmc = 1;
  info.master_sm_lid = Lid{1};
  info.capability_mask = wire::PortCapability::IsSm;
  info.pkey_violations = 4;
  info.qkey_violations = 5;
  info.subnet_timeout = 15;
  info.init_type_reply = 6;
  const PKey pkeys[] = {kDefaultPKey, PKey{0x8001}};
  const fabric::PortRecord& record = view.port(*view.find_port(h1, PortNumber{1}));
  const uabi::UmadPort port = describe(record, info, pkeys);
  EXPECT_EQ(port.number, 1);
  EXPECT_EQ(port.lid, Lid{3});
  EXPECT_EQ(port.sm_lid, Lid{1});
  EXPECT_EQ(port.capability_mask, 2U);
  EXPECT_EQ(port.pkey_violations, 4);
  EXPECT_EQ(port.qkey_violations, 5);
  EXPECT_EQ(port.subnet_timeout, 15);
  EXPECT_EQ(port.init_type_reply, 6);
  EXPECT_EQ(port.gid.interface_id(), record.guid);
  EXPECT_EQ(port.pkeys.size(), 2U);
  EXPECT_TRUE(port.is_infiniband);
}

}  // namespace
}  // namespace weft::daemon
