#include "ulp/opa_vnic/control_port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ulp/opa_vnic/testing_counters.h"
#include "ulp/opa_vnic/testing_device.h"
#include "ulp/opa_vnic/testing_frames.h"

namespace weft::opa_vnic {
namespace {

using ::testing::ElementsAre;
using wire::MadMethod;
using wire::VemaAttribute;

void set_info(ControlPort& control, std::uint8_t port, std::uint8_t vport, std::uint16_t vesw_id) {
  wire::VeswPortInfo info{};
  info.vesw.vesw_id = vesw_id;
  info.vesw.eth_mtu = 1500;
  info.vesw.multicast_dlid = 0xF00001;
  info.port.config_state = wire::VeswPortState::Forwarding;
  wire::VemaMad mad{};
  mad.header = {.base_version = 0x80,
                .mgmt_class = wire::kVemaClass,
                .class_version = 0x80,
                .method = MadMethod::Set,
                .attribute_id = static_cast<std::uint16_t>(VemaAttribute::VeswPortInfo),
                .attribute_modifier = vport};
  copy_bytes(mad.data, wire::pack(info));
  control.handle_mad(PortNumber{port}, {}, wire::pack(mad), {});
}

TEST(OpaControlPort, RegistersAtEachPortAndAnnouncesEthernet) {  // R-VN-1, R-VN-2, R-VN-12
  testing::FakeDevice device;
  device.port_count = 2;
  {
    const auto control = ControlPort::add_one(device).value();
    ASSERT_EQ(device.agents.size(), 2U);
    const AgentRegistration& agent = device.agents.at(PortNumber{2});
    EXPECT_EQ(static_cast<unsigned>(agent.mgmt_class), 0x34U);
    EXPECT_EQ(agent.class_version, 0x80);
    EXPECT_EQ(agent.oui, 0x00066AU);
    EXPECT_EQ(agent.rmpp_version, 1);
    EXPECT_THAT(agent.methods, ElementsAre(MadMethod::Get, MadMethod::Set));
    EXPECT_TRUE(device.announced.at(PortNumber{1}));
    EXPECT_TRUE(device.announced.at(PortNumber{2}));
    set_info(*control, 1, 8, 1);
    device.log.clear();
  }
  EXPECT_THAT(device.log, ElementsAre("remove 8", "unregister 1", "unregister 2"));
  EXPECT_FALSE(device.announced.at(PortNumber{1}));
}

TEST(OpaControlPort, SkipsDevicesThatCannotDoIt) {  // R-VN-1
  testing::FakeDevice device;
  device.is_opa = false;
  EXPECT_EQ(ControlPort::add_one(device).error().code, ErrorCode::NotSupported);
  EXPECT_TRUE(device.agents.empty());
}

TEST(OpaControlPort, UnregistersWhatWasRegisteredWhenAPortFails) {  // R-VN-2
  testing::FakeDevice device;
  device.port_count = 3;
  device.refused_port = 3;
  EXPECT_FALSE(ControlPort::add_one(device).has_value());
  EXPECT_TRUE(device.agents.empty());
  EXPECT_THAT(device.log, ElementsAre("register 1", "register 2", "unregister 1", "unregister 2"));
  EXPECT_TRUE(device.announced.empty());
}

TEST(OpaControlPort, KnowsPortsFromOneUp) {  // R-VN-4
  testing::FakeDevice device;
  device.port_count = 2;
  const auto control = ControlPort::add_one(device).value();
  EXPECT_EQ(control->get_port(PortNumber{0}), nullptr);
  EXPECT_NE(control->get_port(PortNumber{1}), nullptr);
  EXPECT_NE(control->get_port(PortNumber{2}), nullptr);
  EXPECT_EQ(control->get_port(PortNumber{3}), nullptr);
  EXPECT_EQ(control->get_vport({PortNumber{1}, 0}), nullptr);
  set_info(*control, 1, 0, 1);
  EXPECT_NE(control->get_vport({PortNumber{1}, 0}), nullptr);
  EXPECT_EQ(control->get_vport({PortNumber{2}, 0}), nullptr);
}

TEST(OpaControlPort, DeliversByTheVirtualSwitchOfThePacket) {  // R-VN-17, T-VN-7
  testing::FakeDevice device;
  const auto control = ControlPort::add_one(device).value();
  const auto frame = testing::make_frame({.destination = 0xFFFF'FFFF'FFFF, .source = 1});
  control->handle_packet(PortNumber{1}, wire::to_opa_packet({.vesw_id = 5}, frame));  // to nobody
  for (const std::uint8_t vport : {std::uint8_t{0}, std::uint8_t{1}}) {
    set_info(*control, 1, vport, static_cast<std::uint16_t>(5 + vport));
    control->get_vport({PortNumber{1}, vport})->set_interface_up(true, {});
  }
  control->handle_packet(PortNumber{1}, wire::to_opa_packet({.vesw_id = 6}, frame));
  ASSERT_EQ(device.delivered.size(), 1U);
  EXPECT_EQ(device.delivered.front().first.number, 1);
  EXPECT_EQ(device.delivered.front().second, frame);
  control->handle_packet(PortNumber{1}, wire::to_opa_packet({.vesw_id = 7}, frame));
  const VirtualPort& first = *control->get_vport({PortNumber{1}, 0});
  const VirtualPort& second = *control->get_vport({PortNumber{1}, 1});
  EXPECT_EQ(testing::errors_of(first), (std::map<std::string, std::uint64_t>{
                                           {"RxErrors",    1},
                                           {"RxBadVeswid", 1}
  }));
  EXPECT_EQ(first.counters().summary().rx_packets, 0U);
  EXPECT_TRUE(testing::errors_of(second).empty());
  EXPECT_EQ(second.counters().summary().rx_packets, 1U) << "that of its own switch";
  control->handle_packet(PortNumber{1}, std::vector<std::byte>(10));
  EXPECT_EQ(testing::errors_of(first).at("RxLogic"), 1U);
  EXPECT_TRUE(testing::errors_of(second).empty());
  EXPECT_EQ(device.delivered.size(), 1U);
}

TEST(OpaControlPort, SendsTheFramesOfInterfaces) {
  testing::FakeDevice device;
  const auto control = ControlPort::add_one(device).value();
  set_info(*control, 1, 0, 5);
  control->get_vport({PortNumber{1}, 0})->set_interface_up(true, {});
  const auto frame = testing::make_frame({.destination = 0xFFFF'FFFF'FFFF, .source = 1});
  control->transmit({PortNumber{1}, 0}, frame);
  control->transmit({PortNumber{1}, 1}, frame);  // there is none
  ASSERT_EQ(device.packets.size(), 1U);
  control->handle_port_event(PortNumber{1}, false, {});
  control->transmit({PortNumber{1}, 0}, frame);
  EXPECT_EQ(device.packets.size(), 1U);
  control->handle_port_event(PortNumber{1}, true, {});
  control->transmit({PortNumber{1}, 0}, frame);
  EXPECT_EQ(device.packets.size(), 2U);
}

}  // namespace
}  // namespace weft::opa_vnic
