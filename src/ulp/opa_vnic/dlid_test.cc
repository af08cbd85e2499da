#include "ulp/opa_vnic/dlid.h"

#include <gtest/gtest.h>

#include <set>

namespace weft::opa_vnic {
namespace {

using wire::MacAddress;

TEST(OpaFlowTable, RepeatsThePortsOfTheMask) {  // R-VN-15
  const FlowTable flows = make_flow_table(0b1000'0000'0010'0001);
  for (std::size_t i = 0; i < flows.size(); ++i) {
    EXPECT_EQ(flows[i], (std::array<std::uint8_t, 3>{0, 5, 15})[i % 3]) << i;
  }
  EXPECT_EQ(make_flow_table(0), FlowTable{});
}

/// T-VN-6 asks for this matrix, and for the counter in virtual_port_test.cc.
TEST(OpaDlid, IsChosenInOrder) {
  wire::VeswInfo vesw{.default_port_mask = 0x8001, .multicast_dlid = 0xF00001};
  vesw.unicast_dlids[0] = 0x100;
  vesw.unicast_dlids[15] = 0x115;
  const FlowTable flows = make_flow_table(vesw.default_port_mask);
  const auto entry = [](std::uint64_t mac, std::uint32_t dlid, std::uint8_t side = 0) {
    return wire::MacTableEntry{.mac = MacAddress::from_number(mac),
                               .mask = MacAddress::from_number(0xFFFF'FFFF'FFFF),
                               .dlid = dlid,
                               .side_data = side};
  };
  const auto macs =
      MacTable{
  }
          .with_block({.offset = 0,
                       .digest = 1,
                       .entries = {entry(0x0011'0000'0001, 0xA1), entry(0x0100'5E00'0001, 0xA2),
                                   entry(0x0200'0000'0005, 0xA3),
                                   entry(0x0011'0000'0002, 0xA4, wire::MacTableEntry::kSourceMac)}})
          .value();
  const auto choose = [&](std::uint64_t mac, std::uint8_t entropy = 0) {
    return choose_dlid(MacAddress::from_number(mac), entropy, vesw, *macs, flows);
  };
  EXPECT_EQ(choose(0x0011'0000'0001), 0xA1U);         // the table
  EXPECT_EQ(choose(0x0100'5E00'0001), 0xA2U);         // also for multicast
  EXPECT_EQ(choose(0x0200'0000'0005), 0xA3U);         // also for local addresses
  EXPECT_EQ(choose(0x0100'5E00'0002), 0xF00001U);     // multicast
  EXPECT_EQ(choose(0xFFFF'FFFF'FFFF), 0xF00001U);     // broadcast
  EXPECT_EQ(choose(0x0200'0056'3412), 0x123456U);     // octets 5, 4 and 3 of a local address
  EXPECT_EQ(choose(0x0011'0000'0002), 0x100U);        // entries for sources do not count
  EXPECT_EQ(choose(0x0011'0000'0003, 0x10), 0x115U);  // 1 + 0
  EXPECT_EQ(choose(0x0011'0000'0003, 0x11), 0x100U);  // 1 + 1
  EXPECT_EQ(choose(0x0011'0000'0003, 0xFF), 0x100U);  // 15 + 15
  EXPECT_EQ(
      choose_dlid(MacAddress::from_number(0x0011'0000'0003), 0, {}, MacTable{}, make_flow_table(0)),
      0U);
}

}  // namespace
}  // namespace weft::opa_vnic
