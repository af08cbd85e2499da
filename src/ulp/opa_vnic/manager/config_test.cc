#include "ulp/opa_vnic/manager/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace weft::opa_vnic {
namespace {

using ::testing::HasSubstr;
using wire::MacAddress;

ManagerConfig valid_config() {
  ManagerConfig config;
  config.switches.push_back({
      .name = "lab",
      .fabric_id = 1,
      .vesw_id = 7,
      .mtu = 9000,
      .multicast_dlid = 0xF00001,
      .default_dlids = {0x10,                                                    0x11},
      .members = {{.port = Guid{1}, .mac = MacAddress::from_number(0x10)},
                        {.port = Guid{2}, .mac = MacAddress::from_number(0x20)}      }
  });
  return config;
}

std::string refusal_of(const std::function<void(ManagerConfig&)>& change) {
  ManagerConfig config = valid_config();
  change(config);
  const auto checked = validate(config);
  return checked ? "valid" : checked.error().reason;
}

TEST(EthernetManagerConfig, IsCheckedWithReasons) {
  EXPECT_EQ(refusal_of([](auto&) {}), "valid");
  EXPECT_THAT(refusal_of([](auto& c) { c.switches[0].vesw_id = 0; }), HasSubstr("from 1 to 4095"));
  EXPECT_THAT(refusal_of([](auto& c) { c.switches[0].vesw_id = 4096; }), HasSubstr("4096"));
  EXPECT_THAT(refusal_of([](auto& c) { c.switches[0].fabric_id = 1024; }), HasSubstr("1024"));
  EXPECT_THAT(refusal_of([](auto& c) { c.switches[0].mtu = 10'239; }), HasSubstr("MTU 10239"));
  EXPECT_THAT(refusal_of([](auto& c) { c.switches[0].default_dlids.resize(17); }),
              HasSubstr("17 default ports"));
  EXPECT_THAT(refusal_of([](auto& c) { c.switches[0].multicast_dlid = 0x100'0000; }),
              HasSubstr("24 bits"));
  EXPECT_THAT(refusal_of([](auto& c) { c.switches[0].members[0].mac = {}; }),
              HasSubstr("no station"));
  EXPECT_THAT(
      refusal_of([](auto& c) { c.switches[0].members[1].mac = c.switches[0].members[0].mac; }),
      HasSubstr("there twice"));
  EXPECT_THAT(refusal_of([](auto& c) { c.switches[0].members[1].port = Guid{1}; }),
              HasSubstr("virtual port 0 of 0x1"));
  EXPECT_THAT(refusal_of([](auto& c) { c.switches[0].members[1].vport = 255; }),
              HasSubstr("above 254"));
  EXPECT_THAT(refusal_of([](auto& c) { c.switches.push_back({.name = "other", .vesw_id = 7}); }),
              HasSubstr("number 7 is another's"));
}

TEST(EthernetManagerConfig, BecomesTheInfoOfAMember) {
  const SwitchConfig config = valid_config().switches[0];
  const auto info = wanted_info(config, 1, 0x222, wire::VeswPortState::Forwarding);
  EXPECT_EQ(info.vesw.default_port_mask, 3);
  EXPECT_EQ(info.vesw.unicast_dlids[1], 0x11U);
  EXPECT_EQ(info.vesw.eth_mtu, 9000);
  EXPECT_EQ(info.port.port_number, 2U);
  EXPECT_EQ(info.port.base_mac, MacAddress::from_number(0x20));
  EXPECT_EQ(info.port.encap_slid, 0x222U);
}

}  // namespace
}  // namespace weft::opa_vnic
