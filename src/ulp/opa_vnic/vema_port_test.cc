#include "ulp/opa_vnic/vema_port.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "base/random.h"
#include "ulp/opa_vnic/testing_device.h"
#include "ulp/opa_vnic/testing_frames.h"
#include "wire/address_text.h"

namespace weft::opa_vnic {
namespace {

using wire::MacAddress;
using wire::MadMethod;
using wire::VemaAttribute;

/// An agent, and a manager that sends one MAD at a time and reads octets, not structures.
struct Agent {
  wire::VemaMad ask(MadMethod method, VemaAttribute attribute, ByteSpan data = {},
                    std::uint8_t vport = 0) {
    wire::VemaMad mad{};
    mad.header = {.base_version = 0x80,
                  .mgmt_class = wire::kVemaClass,
                  .class_version = 0x80,
                  .method = method,
                  .transaction_id = ++transaction,
                  .attribute_id = static_cast<std::uint16_t>(attribute),
                  .attribute_modifier = vport};
    copy_bytes(mad.data, data);
    device.mads.clear();
    port.receive({.lid = Lid{9}}, wire::pack(mad), now);
    if (device.mads.size() != 1) {
      ADD_FAILURE() << device.mads.size() << " answers";
      return {};
    }
    const auto answer = device.mads.front().parsed();
    EXPECT_EQ(device.mads.front().to.lid, Lid{9});
    EXPECT_EQ(answer.header.method, MadMethod::GetResp);
    EXPECT_EQ(answer.header.transaction_id, transaction);
    return answer;
  }
  std::uint16_t status_of(MadMethod method, VemaAttribute attribute, ByteSpan data = {},
                          std::uint8_t vport = 0) {
    return ask(method, attribute, data, vport).header.status;
  }
  void create(std::uint8_t vport = 0, wire::VeswPortInfo info = {}) {
    EXPECT_EQ(status_of(MadMethod::Set, VemaAttribute::VeswPortInfo, wire::pack(info), vport), 0);
  }

  testing::FakeDevice device;
  VemaPort port{device, PortNumber{1}, {}};
  std::uint64_t transaction{};
  Instant now{};
};

std::vector<std::byte> random_bytes(std::size_t count, std::uint64_t seed) {
  Random random{seed};
  std::vector<std::byte> bytes(count);
  for (std::byte& octet : bytes) {
    octet = static_cast<std::byte>(random());
  }
  return bytes;
}

std::vector<std::byte> head_of(std::span<const std::byte> data, std::size_t bytes) {
  return {data.begin(), data.begin() + static_cast<std::ptrdiff_t>(bytes)};
}

/// A number as the formats' tables write it: where it lies, and how many octets it has.
struct Number {
  std::size_t at;
  std::size_t octets;
  std::uint64_t value;
};

std::vector<std::byte> written(std::size_t bytes, std::span<const Number> numbers) {
  std::vector<std::byte> data(bytes);
  for (const Number& number : numbers) {
    for (std::size_t i = 0; i < number.octets; ++i) {
      data[number.at + i] =
          static_cast<std::byte>(number.value >> (8 * (number.octets - 1 - i)) & 0xFF);
    }
  }
  return data;
}

constexpr std::size_t kPort = 152;  // opa_per_veswport_info, behind opa_vesw_info

/// VeswPortInfo with another value in each field that a manager may set.
std::vector<std::byte> distinct_info() {
  std::vector<Number> numbers{
      {0,          2, 0x0101          },
      {2,          2, 0x0202          },
      {10,         2, 0x0303          },
      {14,         2, 0x0404          },
      {20,         4, 0x0505'0506     },
      {88,         4, 0x0707'0708     },
      {148,        2, 0x0808          },
      {kPort,      4, 0x0909'090A     },
      {kPort + 8,  6, 0x0A0A'0A0A'0A0B},
      {kPort + 14, 1, 3               },
      {kPort + 28, 4, 0x0B0B'0B0C     },
      {kPort + 64, 4, 0x5152'5354     }
  };
  for (std::size_t i = 0; i < wire::kMaxDefaultPorts; ++i) {
    numbers.push_back({24 + 4 * i, 4, 0x0606'0600 + i});
  }
  for (std::size_t i = 0; i < wire::kPriorities; ++i) {
    for (std::size_t map = 0; map < 4; ++map) {
      numbers.push_back({kPort + 32 + 8 * map + i, 1, 0x10 * (map + 1) + i});
    }
  }
  return written(280, numbers);
}

/// T-VN-2, VeswPortInfo, since what is Set and read back says nothing of where its fields lie.
TEST(VemaPort, SetsEachFieldWhereTheTablesSay) {
  Agent agent;
  agent.ask(MadMethod::Set, VemaAttribute::VeswPortInfo, distinct_info());
  VirtualPort& vport = *agent.port.find_vport(0);
  const auto counting_from = []<class T, std::size_t kCount>(std::array<T, kCount> values,
                                                             unsigned first) {
    std::iota(values.begin(), values.end(), static_cast<T>(first));
    return values;
  };
  const wire::VeswInfo vesw = vport.info().vesw;
  EXPECT_EQ(vesw.fabric_id, 0x0101);
  EXPECT_EQ(vesw.vesw_id, 0x0202);
  EXPECT_EQ(vesw.default_port_mask, 0x0303);
  EXPECT_EQ(vesw.pkey, 0x0404);
  EXPECT_EQ(vesw.multicast_dlid, 0x0505'0506U);
  EXPECT_EQ(vesw.unicast_dlids, counting_from(vesw.unicast_dlids, 0x0606'0600));
  EXPECT_EQ(vesw.routing_control, 0x0707'0708U);
  EXPECT_EQ(vesw.eth_mtu, 0x0808);
  const wire::PerVeswPortInfo port = vport.info().port;
  EXPECT_EQ(port.port_number, 0x0909'090AU);
  EXPECT_EQ(port.base_mac, MacAddress::from_number(0x0A0A'0A0A'0A0B));
  EXPECT_EQ(port.config_state, wire::VeswPortState::Forwarding);
  EXPECT_EQ(port.encap_slid, 0x0B0B'0B0CU);
  EXPECT_EQ(port.unicast_sc, counting_from(port.unicast_sc, 0x10));
  EXPECT_EQ(port.unicast_vl, counting_from(port.unicast_vl, 0x20));
  EXPECT_EQ(port.multicast_sc, counting_from(port.multicast_sc, 0x30));
  EXPECT_EQ(port.multicast_vl, counting_from(port.multicast_vl, 0x40));
  EXPECT_EQ(port.untagged_unicast_sc, 0x51);
  EXPECT_EQ(port.untagged_unicast_vl, 0x52);
  EXPECT_EQ(port.untagged_multicast_sc, 0x53);
  EXPECT_EQ(port.untagged_multicast_vl, 0x54);

  // What the port itself says.
  vport.set_interface_up(true, {});
  vport.set_unicast_macs({MacAddress::from_number(1)}, {});
  vport.set_unicast_macs({MacAddress::from_number(2)}, {});
  vport.set_multicast_macs({MacAddress::from_number(0x3333'0000'0001)}, {});
  const auto got = agent.ask(MadMethod::Get, VemaAttribute::VeswPortInfo).data;
  EXPECT_EQ(got[kPort + 4], std::byte{1}) << "the link is up";
  EXPECT_EQ(got[kPort + 15], std::byte{3}) << "it forwards";
  EXPECT_EQ(wire::hex_text(std::span{got}.subspan(kPort + 116, 4)), "00020001");
}

/// T-VN-2, VeswPortInfo: offsets are those of the format's tables.
TEST(VemaPort, KeepsVeswPortInfoToTheByteButWhatIsReadOnly) {
  Agent agent;
  agent.create();
  const auto before = agent.ask(MadMethod::Get, VemaAttribute::VeswPortInfo).data;
  auto wanted = random_bytes(280, 1);
  wanted[152 + 14] = std::byte{1};  // the configured state: drop all
  const auto set = agent.ask(MadMethod::Set, VemaAttribute::VeswPortInfo, wanted).data;
  const auto after = agent.ask(MadMethod::Get, VemaAttribute::VeswPortInfo).data;
  EXPECT_EQ(set, after);
  const auto is_read_only = [](std::size_t at) {
    const std::size_t port = at - 152;
    return at >= 152 && (port == 4 || (port >= 15 && port < 24) || (port >= 116 && port < 120));
  };
  for (std::size_t at = 0; at < 280; ++at) {
    EXPECT_EQ(after[at], is_read_only(at) ? before[at] : wanted[at]) << at;
  }
  EXPECT_EQ(after[152 + 16], std::byte{0x08});  // 2048 MAC entries
  EXPECT_EQ(after[152 + 18], std::byte{0x01});  // 256 of sources
  EXPECT_EQ(after[152 + 4], std::byte{2});      // link down
}

/// T-VN-2, ClassPortInfo.
TEST(VemaPort, KeepsClassPortInfoToTheByteButWhatIsReadOnly) {
  Agent agent;
  const auto wanted = random_bytes(80, 2);
  agent.ask(MadMethod::Set, VemaAttribute::ClassPortInfo, wanted);
  const auto got = agent.ask(MadMethod::Get, VemaAttribute::ClassPortInfo).data;
  EXPECT_EQ(wire::hex_text(std::span{got}.first(8)), "8080ff0100000012");
  for (std::size_t at = 8; at < 80; ++at) {
    EXPECT_EQ(got[at], wanted[at]) << at;
  }
}

/// T-VN-2, ClassPortInfo.
TEST(VemaPort, HasEachFieldOfClassPortInfoWhereTheTableSays) {
  const auto octets = written(
      80, std::array<Number, 23>{
              {{0, 1, 0x80},         {1, 1, 0x81},       {2, 2, 0x0203},     {4, 4, 0x0405'06E7},
               {8, 8, 0x0101},       {16, 8, 0x0202},    {24, 1, 0x24},      {25, 3, 0x52'5252},
               {28, 4, 0x2828'2829}, {32, 1, 0x32 << 2}, {33, 3, 0x33'3334}, {36, 4, 0x3636'3637},
               {40, 8, 0x0404},      {48, 8, 0x0505},    {56, 1, 0x56},      {57, 3, 0x65'7575},
               {60, 4, 0x6060'6061}, {64, 1, 0x64},      {65, 3, 0x65'6566}, {68, 4, 0x6868'6869},
               {72, 2, 0x7273},      {74, 2, 0x7475},    {76, 1, 0x13 << 3}}
  });
  const auto info = wire::parse<wire::OpaClassPortInfo>(octets);
  const wire::OpaClassPortInfo expected{
      .base_version = 0x80,
      .class_version = 0x81,
      .capability_mask = 0x0203,
      .capability_mask2 = 0x0405'06E7 >> 5,
      .resp_time_value = 7,
      .redirect_gid = Gid{0x0101, Guid{0x0202}},
      .redirect_tclass = 0x24,
      .reserved0 = 5,
      .redirect_flow_label = 0x2'5252,
      .redirect_lid = 0x2828'2829,
      .redirect_sl = 0x19,
      .redirect_qp = Qpn{0x33'3334},
      .redirect_qkey = QKey{0x3636'3637},
      .trap_gid = Gid{0x0404, Guid{0x0505}},
      .trap_tclass = 0x56,
      .reserved2 = 6,
      .trap_flow_label = 0x5'7575,
      .trap_lid = 0x6060'6061,
      .trap_hop_limit = 0x64,
      .trap_qp = Qpn{0x65'6566},
      .trap_qkey = QKey{0x6868'6869},
      .trap_pkey = PKey{0x7273},
      .redirect_pkey = PKey{0x7475},
      .trap_sl = 0x13
  };
  EXPECT_EQ(info, expected);
  EXPECT_TRUE(std::ranges::equal(wire::pack(expected), octets));
}

/// T-VN-2, MAC table.
TEST(VemaPort, KeepsTheMacTableToTheByte) {  // R-VN-9
  Agent agent;
  agent.create();
  auto wanted = random_bytes(8 + 3 * 16, 3);
  wanted[0] = std::byte{0x07};  // offset 0x0710
  wanted[1] = std::byte{0x10};
  wanted[2] = std::byte{0};
  wanted[3] = std::byte{3};
  const auto set = agent.ask(MadMethod::Set, VemaAttribute::MacTable, wanted).data;
  const auto got =
      agent.ask(MadMethod::Get, VemaAttribute::MacTable, ByteSpan{wanted}.first(4)).data;
  EXPECT_EQ(set, got);
  EXPECT_TRUE(std::ranges::equal(std::span{got}.first(wanted.size()), wanted));
  const auto info = agent.ask(MadMethod::Get, VemaAttribute::VeswPortInfo).data;
  EXPECT_TRUE(
      std::ranges::equal(std::span{info}.subspan(152 + 20, 4), ByteSpan{wanted}.subspan(4, 4)));
}

/// T-VN-2, lists of MACs.
TEST(VemaPort, ListsMacsToTheByte) {  // R-VN-10
  Agent agent;
  agent.create();
  agent.port.find_vport(0)->set_unicast_macs({MacAddress::from_number(0x0011'2233'4455)}, {});
  agent.port.find_vport(0)->set_multicast_macs(
      {MacAddress::from_number(0x3333'0000'0001), MacAddress::from_number(0x0100'5E00'0001)}, {});
  EXPECT_EQ(wire::hex_text(head_of(agent.ask(MadMethod::Get, VemaAttribute::UnicastMacs).data, 14)),
            "0000000100010001001122334455");
  const std::array one{std::byte{0}, std::byte{1}, std::byte{0}, std::byte{1}};
  EXPECT_EQ(wire::hex_text(
                head_of(agent.ask(MadMethod::Get, VemaAttribute::MulticastMacs, one).data, 14)),
            "000100010002000101005e000001");
}

/// T-VN-2, counters.
TEST(VemaPort, ReportsCountersToTheByte) {  // R-VN-11
  Agent agent;
  wire::VeswPortInfo info{};
  info.vesw.vesw_id = 0x123;
  info.vesw.eth_mtu = 1500;
  info.vesw.multicast_dlid = 1;
  info.port.port_number = 0xA0B0'C0D0;
  info.port.config_state = wire::VeswPortState::Forwarding;
  agent.create(5, info);
  VirtualPort& vport = *agent.port.find_vport(5);
  const auto frame =
      testing::make_frame({.destination = 0xFFFF'FFFF'FFFF, .source = 1, .bytes = 100});
  EXPECT_FALSE(vport.transmit(frame));
  vport.set_interface_up(true, {});
  EXPECT_TRUE(vport.transmit(frame));
  const auto summary = agent.ask(MadMethod::Get, VemaAttribute::SummaryCounters, {}, 5).data;
  const auto errors = agent.ask(MadMethod::Get, VemaAttribute::ErrorCounters, {}, 5).data;
  std::vector<std::byte> expected_summary(360);
  std::vector<std::byte> expected_errors(304);
  for (auto* expected : {&expected_summary, &expected_errors}) {
    (*expected)[1] = std::byte{5};
    (*expected)[2] = std::byte{0x01};
    (*expected)[3] = std::byte{0x23};
    (*expected)[4] = std::byte{0xA0};
    (*expected)[5] = std::byte{0xB0};
    (*expected)[6] = std::byte{0xC0};
    (*expected)[7] = std::byte{0xD0};
  }
  const auto set = [](std::vector<std::byte>& bytes, std::size_t at, unsigned value) {
    bytes[at + 7] = static_cast<std::byte>(value);
  };
  set(expected_summary, 8, 1);     // tx_errors
  set(expected_summary, 24, 1);    // tx_packets
  set(expected_summary, 40, 104);  // tx_bytes
  set(expected_summary, 64, 1);    // tx_mcastbcast
  set(expected_summary, 72, 1);    // tx_untagged
  set(expected_summary, 96, 1);    // tx_65_127
  set(expected_errors, 8, 1);      // tx_errors
  set(expected_errors, 96, 1);     // tx_drop_state
  EXPECT_TRUE(std::ranges::equal(std::span{summary}.first(360), expected_summary));
  EXPECT_TRUE(std::ranges::equal(std::span{errors}.first(304), expected_errors));
}

/// T-VN-2, counters: each has a place of its own, eight octets long, from the first in the table
/// on.
TEST(VemaPort, HasEachCounterWhereTheTablesSay) {
  using Summary = wire::VeswPortSummaryCounters;
  using Errors = wire::VeswPortErrorCounters;
  constexpr std::array kSummary{
      &Summary::tx_errors,   &Summary::rx_errors,   &Summary::tx_packets,   &Summary::rx_packets,
      &Summary::tx_bytes,    &Summary::rx_bytes,    &Summary::tx_unicast,   &Summary::tx_multicast,
      &Summary::tx_untagged, &Summary::tx_vlan,     &Summary::tx_64,        &Summary::tx_65_127,
      &Summary::tx_128_255,  &Summary::tx_256_511,  &Summary::tx_512_1023,  &Summary::tx_1024_1518,
      &Summary::tx_1519_max, &Summary::rx_unicast,  &Summary::rx_multicast, &Summary::rx_untagged,
      &Summary::rx_vlan,     &Summary::rx_64,       &Summary::rx_65_127,    &Summary::rx_128_255,
      &Summary::rx_256_511,  &Summary::rx_512_1023, &Summary::rx_1024_1518, &Summary::rx_1519_max};
  Summary summary;
  std::vector<Number> numbers;
  for (std::size_t i = 0; i < kSummary.size(); ++i) {
    summary.*kSummary[i] = 0x0102'0304'0506'0700 + i;
    numbers.push_back({8 + 8 * i, 8, 0x0102'0304'0506'0700 + i});
  }
  EXPECT_EQ(numbers.back().at, 224U);
  EXPECT_TRUE(std::ranges::equal(wire::pack(summary), written(360, numbers)));

  constexpr std::array<std::pair<std::uint64_t Errors::*, std::size_t>, 12> kErrors{
      {{&Errors::tx_errors, 8},
       {&Errors::rx_errors, 16},
       {&Errors::tx_smac_filt, 32},
       {&Errors::tx_dlid_zero, 64},
       {&Errors::tx_logic, 80},
       {&Errors::tx_drop_state, 96},
       {&Errors::rx_bad_veswid, 104},
       {&Errors::rx_runt, 120},
       {&Errors::rx_oversize, 128},
       {&Errors::rx_eth_down, 144},
       {&Errors::rx_drop_state, 152},
       {&Errors::rx_logic, 160}}
  };
  Errors errors;
  numbers.clear();
  for (const auto& [counter, at] : kErrors) {
    errors.*counter = 0x0807'0605'0403'0200 + at;
    numbers.push_back({at, 8, 0x0807'0605'0403'0200 + at});
  }
  EXPECT_TRUE(std::ranges::equal(wire::pack(errors), written(304, numbers)));
}

TEST(VemaPort, CreatesAVirtualPortByASet) {  // R-VN-5
  Agent agent;
  const auto absent = agent.ask(MadMethod::Get, VemaAttribute::VeswPortInfo, {}, 4).data;
  EXPECT_EQ(absent[152 + 4], std::byte{0});  // no link status: there is no port
  EXPECT_EQ(absent[152 + 14], std::byte{1});
  EXPECT_TRUE(agent.device.interfaces.empty());
  agent.create(4);
  EXPECT_EQ(agent.device.interfaces.size(), 1U);
  agent.create(4);
  EXPECT_EQ(agent.device.interfaces.size(), 1U);
  agent.device.has_room = false;
  const wire::VeswPortInfo info{};
  EXPECT_EQ(agent.status_of(MadMethod::Set, VemaAttribute::VeswPortInfo, wire::pack(info), 5),
            0x1C);
  agent.device.has_room = true;
  EXPECT_EQ(agent.status_of(MadMethod::Set, VemaAttribute::VeswPortInfo, wire::pack(info), 255),
            0x1C);
}

TEST(VemaPort, AnswersForNoVirtualPortThatThereIsNot) {  // R-VN-4
  Agent agent;
  for (const auto attribute :
       {VemaAttribute::MacTable, VemaAttribute::UnicastMacs, VemaAttribute::MulticastMacs,
        VemaAttribute::SummaryCounters, VemaAttribute::ErrorCounters}) {
    EXPECT_EQ(agent.status_of(MadMethod::Get, attribute), 0x1C);
  }
  EXPECT_EQ(agent.status_of(MadMethod::Set, VemaAttribute::DeleteVesw), 0x1C);
  EXPECT_EQ(agent.status_of(MadMethod::Set, VemaAttribute::MacTable), 0x1C);
}

TEST(VemaPort, KnowsWhichAttributeCanBeReadAndWritten) {  // R-VN-5
  Agent agent;
  agent.create();
  for (const auto attribute :
       {VemaAttribute::UnicastMacs, VemaAttribute::MulticastMacs, VemaAttribute::SummaryCounters,
        VemaAttribute::ErrorCounters, VemaAttribute::Notice, VemaAttribute{0x7777}}) {
    EXPECT_EQ(agent.status_of(MadMethod::Set, attribute), 0x0C);
  }
  EXPECT_EQ(agent.status_of(MadMethod::Get, VemaAttribute::DeleteVesw), 0x0C);
  EXPECT_EQ(agent.status_of(MadMethod::Get, VemaAttribute{0x0021}), 0x0C);
}

TEST(VemaPort, TakesBlocksAtTheTablesEndAndNoneBehindIt) {  // T-VN-3, R-VN-6
  Agent agent;
  agent.create();
  const auto head = [](std::uint16_t offset, std::uint16_t count) {
    return wire::pack(wire::MacTableHeader{.offset = offset, .entries = count, .digest = 1});
  };
  for (const MadMethod method : {MadMethod::Set, MadMethod::Get}) {
    EXPECT_EQ(agent.status_of(method, VemaAttribute::MacTable, head(1923, 125)), 0);
    EXPECT_EQ(agent.status_of(method, VemaAttribute::MacTable, head(0, 126)), 0x1C);
    EXPECT_EQ(agent.status_of(method, VemaAttribute::MacTable, head(1924, 125)), 0x1C);
  }
}

TEST(VemaPort, SaysThatATableIsFullAndKeepsTheOld) {  // R-VN-18
  Agent agent;
  agent.create();
  for (std::uint16_t block = 0; block < 3; ++block) {
    wire::MacTableBlock sources{
        .offset = static_cast<std::uint16_t>(block * 125), .digest = 1U + block, .entries = {}};
    for (std::uint64_t i = 0; i < 125; ++i) {
      sources.entries.push_back({.mac = MacAddress::from_number(block * 125U + i + 1),
                                 .side_data = wire::MacTableEntry::kSourceMac});
    }
    EXPECT_EQ(agent.status_of(MadMethod::Set, VemaAttribute::MacTable, wire::to_data(sources)),
              block == 2 ? 0x0C : 0);
  }
  EXPECT_EQ(agent.port.find_vport(0)->mac_table().digest(), 2U);
  EXPECT_EQ(agent.port.find_vport(0)->mac_table().size(), 250U);
}

TEST(VemaPort, DeletesTheSwitchAndKeepsThePort) {  // T-VN-4
  Agent agent;
  wire::VeswPortInfo info{};
  info.vesw.vesw_id = 9;
  info.port.encap_slid = 77;
  agent.create(0, info);
  EXPECT_EQ(agent.status_of(MadMethod::Set, VemaAttribute::DeleteVesw), 0);
  EXPECT_TRUE(
      std::ranges::equal(head_of(agent.ask(MadMethod::Get, VemaAttribute::VeswPortInfo).data, 280),
                         wire::pack(power_on_info(wire::EthLinkStatus::Down))));
  EXPECT_EQ(agent.status_of(MadMethod::Get, VemaAttribute::SummaryCounters), 0);
  EXPECT_EQ(agent.device.interfaces.size(), 1U);
}

TEST(VemaPort, AnswersOtherMethodsAsUnsupported) {  // T-VN-8, R-VN-3
  Agent agent;
  EXPECT_EQ(agent.status_of(MadMethod::Report, VemaAttribute::Notice), 0x0C);
  EXPECT_EQ(agent.status_of(MadMethod::Trap, VemaAttribute::Notice), 0x0C);
}

TEST(VemaPort, AnswersNoAnswerAndNothingMalformed) {  // R-VN-3
  Agent agent;
  wire::VemaMad mad{};
  mad.header = {.base_version = 0x80,
                .mgmt_class = wire::kVemaClass,
                .class_version = 0x80,
                .method = MadMethod::GetResp};
  agent.port.receive({}, wire::pack(mad), {});
  mad.header.method = MadMethod::Get;
  mad.oui = 1;
  agent.port.receive({}, wire::pack(mad), {});
  agent.port.receive({}, std::vector<std::byte>(256), {});
  EXPECT_TRUE(agent.device.mads.empty());
  EXPECT_EQ(agent.port.counters().malformed, 3U);
  mad.oui = wire::kVemaOui;
  mad.header.base_version = 1;
  agent.port.receive({}, wire::pack(mad), {});
  EXPECT_EQ(agent.device.mads.front().parsed().header.status, wire::kMadStatusBadVersion);
}

TEST(VemaPort, SendsTrapsToTheByteWhereTheManagerWantsThem) {  // R-VN-13, T-VN-2
  Agent agent;
  wire::VeswPortInfo info{};
  info.vesw.fabric_id = 0x0102;
  info.vesw.vesw_id = 0x0304;
  info.port.port_number = 0x0506'0708;
  info.port.encap_slid = 0x0090'A0B0;
  agent.create(3, info);
  agent.device.mads.clear();
  agent.port.find_vport(3)->set_multicast_macs({MacAddress::from_number(0x3333'0000'0001)}, {});
  agent.port.handle_timeout({});
  EXPECT_TRUE(agent.device.mads.empty());  // nobody has said where to
  EXPECT_EQ(agent.port.deadline(), Instant::never());
  agent.ask(MadMethod::Set, VemaAttribute::ClassPortInfo,
            written(80, std::array<Number, 2>{
                            {{60, 4, 0x54321}, {76, 1, 5 << 3}}
  }));
  agent.device.mads.clear();
  agent.device.pkey = PKey{0x7FFF};
  agent.port.handle_timeout({});
  ASSERT_EQ(agent.device.mads.size(), 1U);
  EXPECT_EQ(
      agent.device.mads.front().to,
      (VemaPeer{.lid = Lid{0x54321}, .qp = kQp1, .sl = ServiceLevel{5}, .pkey = PKey{0x7FFF}}));
  const ByteSpan mad = agent.device.mads.front().mad;
  EXPECT_EQ(wire::hex_text(mad.first(8)), "8034800500000000");
  EXPECT_EQ(wire::hex_text(mad.subspan(16, 8)), "0002000000000003");
  EXPECT_EQ(wire::hex_text(mad.subspan(37, 3)), "00066a");
  EXPECT_EQ(wire::hex_text(mad.subspan(40, 48)),
            "0800066a000000000090a0b000000000"
            "00000000000000000000000000000000"
            "01020304050607080001030200000000");
}

TEST(VemaPort, StopsATrapThatIsAnswered) {  // R-VN-13
  Agent agent;
  agent.create(0);
  agent.ask(MadMethod::Set, VemaAttribute::ClassPortInfo,
            wire::pack(wire::OpaClassPortInfo{.trap_lid = 1}));
  agent.port.find_vport(0)->set_unicast_macs({MacAddress::from_number(2)}, {});
  agent.device.mads.clear();
  agent.port.handle_timeout({});
  ASSERT_EQ(agent.device.mads.size(), 1U);
  EXPECT_NE(agent.port.deadline(), Instant::never());
  auto repress = agent.device.mads.front().parsed();
  repress.header.method = MadMethod::TrapRepress;
  agent.device.mads.clear();
  agent.port.receive({}, wire::pack(repress), {});
  EXPECT_TRUE(agent.device.mads.empty());
  EXPECT_EQ(agent.port.deadline(), Instant::never());
}

TEST(VemaPort, StopsATrapWhenTheManagerHasReadWhatItIsAbout) {
  Agent agent;
  agent.create(0);
  agent.ask(MadMethod::Set, VemaAttribute::ClassPortInfo,
            wire::pack(wire::OpaClassPortInfo{.trap_lid = 1}));
  agent.port.find_vport(0)->set_unicast_macs({MacAddress::from_number(2)}, {});
  agent.port.find_vport(0)->set_interface_up(true, {});
  EXPECT_NE(agent.port.deadline(), Instant::never());
  agent.ask(MadMethod::Get, VemaAttribute::UnicastMacs);
  agent.ask(MadMethod::Get, VemaAttribute::VeswPortInfo);
  EXPECT_EQ(agent.port.deadline(), Instant::never());
}

TEST(VemaPort, SendsFiveTrapsOfTwoHundredChanges) {  // T-VN-5, R-VN-14
  Agent agent;
  agent.create(0);
  agent.ask(MadMethod::Set, VemaAttribute::ClassPortInfo,
            wire::pack(wire::OpaClassPortInfo{.trap_lid = 1}));
  // So that the count wraps.
  VirtualPort& vport = *agent.port.find_vport(0);
  for (std::uint64_t i = 0; i < 65'500; ++i) {
    vport.set_unicast_macs({MacAddress::from_number(i % 2 + 1)}, {});
  }
  vport.traps().settle_all();
  agent.device.mads.clear();
  for (std::uint64_t i = 0; i < 200; ++i) {
    agent.now = Instant{Duration::microseconds(static_cast<std::int64_t>(i) * 500)};
    vport.set_unicast_macs({MacAddress::from_number(100 + i)}, agent.now);
    vport.set_unicast_macs({MacAddress::from_number(100 + i)}, agent.now);  // no change
    agent.port.handle_timeout(agent.now);
  }
  EXPECT_LE(agent.device.mads.size(), 5U);
  EXPECT_GE(agent.device.mads.size(), 1U);
  EXPECT_EQ(vport.info().port.unicast_generation, (65'500 + 200) % 65'536);
}

}  // namespace
}  // namespace weft::opa_vnic
