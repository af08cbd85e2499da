#include "ulp/opa_vnic/virtual_port.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/random.h"
#include "ulp/opa_vnic/testing_counters.h"
#include "ulp/opa_vnic/testing_frames.h"

namespace weft::opa_vnic {
namespace {

using testing::errors_of;
using testing::FrameText;
using testing::make_frame;
using wire::EthLinkStatus;
using wire::MacAddress;
using wire::VeswPortState;

constexpr std::uint64_t kOwn = 0x0011'7500'0001;
constexpr std::uint64_t kPeer = 0x0011'7500'0002;
constexpr std::uint64_t kUnknown = 0x0011'7500'0099;
constexpr std::uint64_t kBroadcast = 0xFFFF'FFFF'FFFF;

wire::MacTableEntry entry_of(std::uint64_t mac, std::uint32_t dlid, std::uint8_t side_data = 0) {
  return {.mac = MacAddress::from_number(mac),
          .mask = MacAddress::from_number(kBroadcast),
          .dlid = dlid,
          .side_data = side_data};
}

wire::VeswPortInfo info_of(VeswPortState state) {
  wire::VeswPortInfo info{};
  info.vesw.vesw_id = 7;
  info.vesw.pkey = 0x8005;
  info.vesw.multicast_dlid = 0xF00001;
  info.vesw.eth_mtu = 1500;
  info.vesw.routing_control = 0x0654'3210;
  info.port.base_mac = MacAddress::from_number(kOwn);
  info.port.config_state = state;
  info.port.encap_slid = 0x10'0001;
  info.port.untagged_unicast_sc = 1;
  info.port.untagged_unicast_vl = 2;
  info.port.untagged_multicast_sc = 3;
  info.port.untagged_multicast_vl = 4;
  for (std::uint8_t pcp = 0; pcp < 8; ++pcp) {
    info.port.unicast_sc[pcp] = static_cast<std::uint8_t>(8 + pcp);
    info.port.unicast_vl[pcp] = static_cast<std::uint8_t>(16 + pcp);
    info.port.multicast_sc[pcp] = static_cast<std::uint8_t>(24 + pcp);
    info.port.multicast_vl[pcp] = pcp;
  }
  return info;
}

VirtualPort forwarding_port() {
  VirtualPort port{
      {.opa_port = PortNumber{1}, .number = 3},
      MacAddress::from_number(0x0002'0000'0000)
  };
  port.set_info(info_of(VeswPortState::Forwarding), Instant{});
  port.set_interface_up(true, Instant{});
  EXPECT_TRUE(port.set_mac_block({.offset = 0, .digest = 1, .entries = {entry_of(kPeer, 0x22)}}));
  return port;
}

wire::OpaEthernetPacket packet_of(const VirtualPort::Sent& sent) {
  return wire::parse_opa_ethernet(sent.packet).value();
}

TEST(OpaVirtualPort, BeginsAsAtPowerOn) {  // R-VN-7
  const VirtualPort port{{}, MacAddress::from_number(1)};
  const auto info = port.info();
  EXPECT_EQ(info.port.max_mac_entries, 2048);
  EXPECT_EQ(info.port.max_source_mac_entries, 256);
  EXPECT_EQ(info.port.config_state, VeswPortState::DropAll);
  EXPECT_EQ(info.port.oper_state, VeswPortState::DropAll);
  EXPECT_EQ(info.port.eth_link_status, EthLinkStatus::Down);
  EXPECT_EQ(info.port.mac_table_digest, 0U);
  EXPECT_EQ(info.vesw.eth_mtu, 1500);
}

TEST(OpaVirtualPort, KeepsItsAddressWhenItIsDeleted) {  // R-VN-7
  VirtualPort port = forwarding_port();
  port.reset(Instant{});
  EXPECT_EQ(port.info(), power_on_info(EthLinkStatus::Down));
  EXPECT_EQ(port.mac(), MacAddress::from_number(kOwn));
  EXPECT_EQ(port.mac_table().size(), 0U);
  EXPECT_EQ(port.transmit(make_frame({.destination = kPeer, .source = kOwn})).error(),
            TxDrop::State);
}

TEST(OpaVirtualPort, ForwardsOnlyWhenConfiguredAndUpAndTheOpaPortIsActive) {  // R-VN-18
  for (unsigned bits = 0; bits < 8; ++bits) {
    VirtualPort port{{}, MacAddress::from_number(1)};
    port.set_interface_up((bits & 1) != 0, Instant{});
    port.set_info(info_of((bits & 2) != 0 ? VeswPortState::Forwarding : VeswPortState::DropAll),
                  Instant{});
    port.set_port_active((bits & 4) != 0, Instant{});
    EXPECT_EQ(port.is_forwarding(), bits == 7) << bits;
    EXPECT_EQ(port.has_carrier(), (bits & 6) == 6) << bits;
    EXPECT_EQ(port.info().port.eth_link_status,
              bits == 7 ? EthLinkStatus::Up : EthLinkStatus::Down);
  }
}

TEST(OpaVirtualPort, TellsEachChangeOfTheLinkOnce) {  // R-VN-18
  VirtualPort port = forwarding_port();
  EXPECT_EQ(port.traps().take(Instant{}), wire::VemaEvent::LinkStatusChanged);
  port.traps().settle_all();
  port.set_interface_up(true, Instant{});
  EXPECT_FALSE(port.traps().take(Instant{}));
  port.set_port_active(false, Instant{});
  EXPECT_TRUE(port.traps().take(Instant{}));
}

TEST(OpaVirtualPort, SendsWhatTheManagerHasSet) {  // R-VN-15, R-VN-16
  VirtualPort port = forwarding_port();
  const auto frame =
      make_frame({.destination = kPeer, .source = kOwn, .ether_type = 0x0800, .protocol = 6});
  const auto sent = port.transmit(frame);
  ASSERT_TRUE(sent);
  const auto packet = packet_of(*sent);
  EXPECT_EQ(packet.header.slid, Lid{0x10'0001});
  EXPECT_EQ(packet.header.dlid, Lid{0x22});
  EXPECT_EQ(packet.header.pkey, PKey{0x8005});
  EXPECT_EQ(packet.header.vesw_id, 7);
  EXPECT_EQ(packet.header.service_channel, 1);
  EXPECT_EQ(sent->vl, 2);
  EXPECT_EQ(packet.header.routing_control, 3);  // IPv4/TCP
  EXPECT_TRUE(std::ranges::equal(packet.frame, frame));
}

TEST(OpaVirtualPort, ChoosesLanesByPriority) {  // R-VN-16
  VirtualPort port = forwarding_port();
  for (std::uint8_t pcp = 0; pcp < 8; ++pcp) {
    const auto unicast =
        port.transmit(make_frame({.destination = kPeer, .source = kOwn, .priority = pcp}));
    EXPECT_EQ(packet_of(*unicast).header.service_channel, 8 + pcp);
    EXPECT_EQ(unicast->vl, 16 + pcp);
    const auto multicast =
        port.transmit(make_frame({.destination = kBroadcast, .source = kOwn, .priority = pcp}));
    EXPECT_EQ(packet_of(*multicast).header.service_channel, 24 + pcp);
    EXPECT_EQ(multicast->vl, pcp);
  }
  const auto untagged = port.transmit(make_frame({.destination = kBroadcast, .source = kOwn}));
  EXPECT_EQ(packet_of(*untagged).header.service_channel, 3);
  EXPECT_EQ(untagged->vl, 4);
}

TEST(OpaVirtualPort, PadsShortFrames) {  // R-VN-15
  VirtualPort port = forwarding_port();
  const auto frame = make_frame({.destination = kPeer, .source = kOwn, .bytes = 20});
  const auto sent = port.transmit(ByteSpan{frame}.first(20));
  ASSERT_TRUE(sent);
  EXPECT_EQ(packet_of(*sent).frame.size(), 60U);
  EXPECT_EQ(port.counters().summary().tx_64, 1U);
}

/// T-VN-6: the rest of the matrix is in dlid_test.cc.
TEST(OpaVirtualPort, DropsAFrameWithoutADlid) {
  VirtualPort port = forwarding_port();
  EXPECT_EQ(port.transmit(make_frame({.destination = kUnknown, .source = kOwn})).error(),
            TxDrop::NoDlid);
  EXPECT_EQ(errors_of(port), (std::map<std::string, std::uint64_t>{
                                 {"TxErrors",   1},
                                 {"TxDlidZero", 1}
  }));
}

TEST(OpaVirtualPort, FiltersSourcesThatTheTableDoesNotList) {
  VirtualPort port = forwarding_port();
  ASSERT_TRUE(port.set_mac_block(
      {.offset = 1, .digest = 2, .entries = {entry_of(kOwn, 0, wire::MacTableEntry::kSourceMac)}}));
  EXPECT_TRUE(port.transmit(make_frame({.destination = kPeer, .source = kOwn})));
  EXPECT_EQ(port.transmit(make_frame({.destination = kPeer, .source = kUnknown})).error(),
            TxDrop::SourceFilter);
  EXPECT_EQ(errors_of(port), (std::map<std::string, std::uint64_t>{
                                 {"TxErrors",   1},
                                 {"TxSmacFilt", 1}
  }));
}

/// T-VN-7. The header of a packet of no switch is control_port_test.cc's.
TEST(OpaVirtualPort, CountsEachBadFrameInItsCounterOnly) {
  struct Case {
    std::string counter;
    std::size_t bytes;
    bool port_active;
    VeswPortState state;
    bool damaged;
  };
  for (const Case& one : {
           Case{"RxRunt",      59,   true,  VeswPortState::Forwarding, false},
           Case{"RxOversize",  1519, true,  VeswPortState::Forwarding, false},
           Case{"RxEthDown",   100,  false, VeswPortState::Forwarding, false},
           Case{"RxDropState", 100,  true,  VeswPortState::DropAll,    false},
           Case{"RxLogic",     100,  true,  VeswPortState::Forwarding, true }
  }) {
    VirtualPort port = forwarding_port();
    port.set_info(info_of(one.state), Instant{});
    port.set_port_active(one.port_active, Instant{});
    const auto frame = make_frame({.destination = kOwn, .source = kPeer, .bytes = one.bytes});
    auto bytes = wire::to_opa_packet({.vesw_id = 7}, frame);
    bytes[30] ^= one.damaged ? std::byte{1} : std::byte{};
    EXPECT_FALSE(port.receive(wire::parse_opa_ethernet(bytes).value()));
    EXPECT_EQ(errors_of(port), (std::map<std::string, std::uint64_t>{
                                   {"RxErrors",  1},
                                   {one.counter, 1}
    }));
    EXPECT_EQ(port.counters().summary().rx_packets, 0U);
  }
  VirtualPort port = forwarding_port();
  for (const std::size_t bytes : {60U, 1518U}) {
    const auto frame = make_frame({.destination = kOwn, .source = kPeer, .bytes = bytes});
    const auto packet = wire::to_opa_packet({.vesw_id = 7}, frame);
    EXPECT_TRUE(port.receive(wire::parse_opa_ethernet(packet).value())) << bytes;
  }
  EXPECT_TRUE(errors_of(port).empty());
}

TEST(OpaVirtualPort, TakesFramesForItsInterfaceOnly) {
  VirtualPort port = forwarding_port();
  port.set_unicast_macs({MacAddress::from_number(0x0011'0000'0005)}, Instant{});
  port.set_multicast_macs({MacAddress::from_number(0x0100'5E00'0001)}, Instant{});
  const auto takes = [&](std::uint64_t destination) {
    const auto frame = make_frame({.destination = destination, .source = kPeer});
    const auto packet = wire::to_opa_packet({.vesw_id = 7}, frame);
    return port.receive(wire::parse_opa_ethernet(packet).value()).has_value();
  };
  EXPECT_TRUE(takes(kOwn));
  EXPECT_TRUE(takes(kBroadcast));
  EXPECT_TRUE(takes(0x0011'0000'0005));
  EXPECT_TRUE(takes(0x0100'5E00'0001));
  EXPECT_FALSE(takes(0x0100'5E00'0002));
  EXPECT_FALSE(takes(kUnknown));
  EXPECT_EQ(port.counters().not_for_us(), 2U);
  EXPECT_TRUE(errors_of(port).empty());
  port.set_promiscuous(true);
  EXPECT_TRUE(takes(kUnknown));
}

TEST(OpaVirtualPort, CountsGoodFramesByKindAndSizeWithTheFcs) {  // R-VN-19
  VirtualPort port = forwarding_port();
  const auto send = [&](std::uint64_t to, std::size_t bytes, std::optional<std::uint8_t> pcp = {}) {
    ASSERT_TRUE(port.transmit(
        make_frame({.destination = to, .source = kOwn, .priority = pcp, .bytes = bytes})));
  };
  wire::VeswPortInfo jumbo = info_of(VeswPortState::Forwarding);
  jumbo.vesw.eth_mtu = 10'238;
  port.set_info(jumbo, Instant{});
  for (const std::size_t with_fcs :
       {64U, 65U, 127U, 128U, 255U, 256U, 511U, 512U, 1023U, 1024U, 1518U, 1519U, 10'256U}) {
    send(kPeer, with_fcs - 4);
  }
  send(kBroadcast, 60, 3);
  const auto& sent = port.counters().summary();
  EXPECT_EQ(sent.tx_packets, 14U);
  EXPECT_EQ(sent.tx_64, 2U);
  EXPECT_EQ(sent.tx_65_127, 2U);
  EXPECT_EQ(sent.tx_128_255, 2U);
  EXPECT_EQ(sent.tx_256_511, 2U);
  EXPECT_EQ(sent.tx_512_1023, 2U);
  EXPECT_EQ(sent.tx_1024_1518, 2U);
  EXPECT_EQ(sent.tx_1519_max, 2U);
  EXPECT_EQ(sent.tx_unicast, 13U);
  EXPECT_EQ(sent.tx_multicast, 1U);
  EXPECT_EQ(sent.tx_untagged, 13U);
  EXPECT_EQ(sent.tx_vlan, 1U);
  EXPECT_EQ(sent.tx_bytes,
            64U + 65 + 127 + 128 + 255 + 256 + 511 + 512 + 1023 + 1024 + 1518 + 1519 + 10'256 + 64);
  port.clear_counters();
  EXPECT_EQ(port.counters().summary().tx_packets, 0U);
}

TEST(OpaVirtualPort, CountsReceivedFramesByKindAndSizeWithTheFcs) {  // R-VN-19
  VirtualPort sender = forwarding_port();
  VirtualPort receiver = forwarding_port();
  wire::VeswPortInfo jumbo = info_of(VeswPortState::Forwarding);
  jumbo.vesw.eth_mtu = 10'238;
  sender.set_info(jumbo, Instant{});
  jumbo.port.base_mac = MacAddress::from_number(kPeer);
  receiver.set_info(jumbo, Instant{});
  const auto carry = [&](std::uint64_t to, std::size_t bytes, std::optional<std::uint8_t> pcp) {
    const auto sent = sender.transmit(
        make_frame({.destination = to, .source = kOwn, .priority = pcp, .bytes = bytes}));
    ASSERT_TRUE(receiver.receive(packet_of(*sent))) << bytes;
  };
  for (const std::size_t with_fcs :
       {64U, 65U, 127U, 128U, 255U, 256U, 511U, 512U, 1023U, 1024U, 1518U, 1519U, 10'256U}) {
    carry(kPeer, with_fcs - 4, {});
  }
  carry(kBroadcast, 60, 3);
  const auto& received = receiver.counters().summary();
  EXPECT_EQ(received.rx_packets, 14U);
  EXPECT_EQ(received.rx_64, 2U);
  EXPECT_EQ(received.rx_65_127, 2U);
  EXPECT_EQ(received.rx_128_255, 2U);
  EXPECT_EQ(received.rx_256_511, 2U);
  EXPECT_EQ(received.rx_512_1023, 2U);
  EXPECT_EQ(received.rx_1024_1518, 2U);
  EXPECT_EQ(received.rx_1519_max, 2U);
  EXPECT_EQ(received.rx_unicast, 13U);
  EXPECT_EQ(received.rx_multicast, 1U);
  EXPECT_EQ(received.rx_untagged, 13U);
  EXPECT_EQ(received.rx_vlan, 1U);
  EXPECT_EQ(received.rx_bytes, sender.counters().summary().tx_bytes);
  EXPECT_EQ(received.rx_errors, 0U);
  EXPECT_EQ(received.tx_packets, 0U);
}

TEST(OpaVirtualPort, RefusesFramesAboveTheLowerMtu) {  // R-VN-18
  VirtualPort port = forwarding_port();
  EXPECT_EQ(port.mtu(), 1500);
  EXPECT_TRUE(port.transmit(make_frame({.destination = kPeer, .source = kOwn, .bytes = 1518})));
  EXPECT_EQ(
      port.transmit(make_frame({.destination = kPeer, .source = kOwn, .bytes = 1519})).error(),
      TxDrop::Logic);
  port.set_mtu(9000);  // above the manager's
  EXPECT_EQ(port.mtu(), 1500);
  port.set_mtu(1000);
  EXPECT_EQ(port.mtu(), 1000);
  EXPECT_FALSE(port.transmit(make_frame({.destination = kPeer, .source = kOwn, .bytes = 1019})));
}

/// Part of T-VN-9: sets between frames, on one thread.
TEST(OpaVirtualPort, SendsByTheOldTableOrTheNew) {
  VirtualPort port = forwarding_port();
  Random random{1};
  std::uint32_t table = 0;
  const auto set = [&] {
    ++table;
    wire::MacTableBlock block{.offset = 0, .digest = table, .entries = {}};
    for (std::uint32_t i = 0; i < 125; ++i) {
      block.entries.push_back(entry_of(0x0011'0000'1000U + i, table * 1000 + i));
    }
    ASSERT_TRUE(port.set_mac_block(block));
  };
  set();
  for (int i = 0; i < 1000; ++i) {
    if (random.chance(1, 10)) {
      set();
    }
    const auto station = static_cast<std::uint32_t>(random.below(125));
    const auto sent =
        port.transmit(make_frame({.destination = 0x0011'0000'1000U + station, .source = kOwn}));
    ASSERT_EQ(packet_of(*sent).header.dlid, Lid{table * 1000 + station});
  }
}

}  // namespace
}  // namespace weft::opa_vnic
