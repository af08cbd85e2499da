// SMPs, other MADs, datagrams and Omni-Path's 16B packets meet the same links: the same rules,
// clocks and captures, and the same counters at the same ports, which are those of data
// (fabric/link_crossing_test.cc).

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "agents/testing/managed_fabric.h"
#include "carriage/management_network.h"
#include "carriage/omni_path_packet.h"
#include "wire/opa/packet_16b.h"

namespace weft::carriage {
namespace {

using agents::testing::ManagedFabric;
using fabric::ExtendedLid;
using fabric::PortCounters;
using fabric::PortIndex;
using fabric::PortState;

enum class Kind : std::uint8_t { Smp, Gmp, Datagram, OmniPath };

struct Inbox final : DatagramSink, OmniPathSink {
  void take(fabric::PortIndex /*at*/, const mad::ReceivedDatagram& /*datagram*/,
            Instant /*now*/) override {
    ++taken;
  }
  void take(fabric::PortIndex /*at*/, const OmniPathPacket& /*packet*/, Instant /*now*/) override {
    ++taken;
  }
  std::size_t taken{};
};

struct Recorder final : LinkTap {
  [[nodiscard]] bool has_room(std::span<const fabric::Hop> /*hops*/, std::size_t /*bytes*/,
                              std::size_t /*packets*/) override {
    return has_room_now;
  }
  void show(const fabric::Hop& hop, const PacketOnCable& /*packet*/) override {
    seen.push_back(hop);
  }
  std::vector<fabric::Hop> seen;
  bool has_room_now{true};
};

class PacketKinds : public ::testing::TestWithParam<Kind> {
 protected:
  PacketKinds() {
    if (GetParam() == Kind::OmniPath) {
      manage_omni_path();
    } else {
      fabric.manage_star();
    }
    fabric.network.set_sink(static_cast<DatagramSink*>(&inbox));
    fabric.network.set_sink(static_cast<OmniPathSink*>(&inbox));
    fabric.network.set_tap(&recorder);
  }

  /// The same LIDs and routes as manage_star(), beyond 16 bits.
  [[nodiscard]] static ExtendedLid extended(Lid lid) {
    return ExtendedLid{0x10'0000 + lid.value()};
  }
  void manage_omni_path() {
    for (const int number : {1, 2}) {
      const PortIndex port = number == 1 ? h1 : h2;
      fabric.tables.set_lid(port, extended(Lid{static_cast<std::uint32_t>(number)}));
      fabric.tables.set_link_state(port, PortState::Active);
      route(Lid{static_cast<std::uint32_t>(number)}, PortNumber{static_cast<std::uint8_t>(number)});
    }
  }
  void route(Lid lid, PortNumber port) {
    if (GetParam() == Kind::OmniPath) {
      fabric.tables.set_forwarding(fabric.node("s1"), extended(lid), port);
    } else {
      fabric.tables.set_forwarding(fabric.node("s1"), lid, port);
    }
  }

  /// From h1 over s1 to h2; a trap or a message of the CM, which no agent answers.
  void send(Lid lid = Lid{2}) {
    mad::MadBytes mad{};
    switch (GetParam()) {
      case Kind::Smp:
        wire::pack(wire::MadHeader{.mgmt_class = wire::ManagementClass::SubnLidRouted,
                                   .method = wire::MadMethod::Trap},
                   std::span{mad}.first<kHeaderBytes>());
        fabric.network.send(h1, mad::InterfaceKind::Smi,
                            {
                                .address = {.lid = lid, .qp = kQp0},
                                  .bytes = mad
        });
        break;
      case Kind::Gmp:
        wire::pack(wire::MadHeader{.mgmt_class = wire::ManagementClass::ComMgt,
                                   .class_version = 2,
                                   .method = wire::MadMethod::Send},
                   std::span{mad}.first<kHeaderBytes>());
        fabric.network.send(h1, mad::InterfaceKind::Gsi, {.address = {.lid = lid}, .bytes = mad});
        break;
      case Kind::Datagram:
        fabric.network.send(h1, {
                                    .source_qp = Qpn{0x100},
                                    .to = {.lid = lid, .qp = Qpn{0x101}},
                                    .payload = std::vector<std::byte>(wire::kMadBytes)
        });
        break;
      case Kind::OmniPath: {
        const std::vector<std::byte> content(kWords * 4 - wire::kOpaLinkHeaderBytes -
                                             wire::kOpaIcrcBytes - wire::kOpaTailBytes);
        const wire::Opa16bHeader header{.slid = Lid{extended(Lid{1}).value()},
                                        .dlid = Lid{extended(lid).value()},
                                        .pkey = kDefaultPKey};
        fabric.network.send(h1, *to_omni_path_packet(wire::to_opa_16b(header, content)));
        break;
      }
    }
    fabric.run();
  }
  void pass(Duration time) {
    fabric.now = fabric.now + time;
    fabric.run();
  }
  [[nodiscard]] std::size_t arrived() const { return fabric.delivered.size() + inbox.taken; }
  [[nodiscard]] const PortCounters& at(std::string_view node, int number) const {
    return fabric.counters.ports[fabric.port(node, number).value()];
  }
  void add_rule(std::string_view text, std::string_view node, int number) {
    const auto rule = fabric::read_fault(text);
    ASSERT_TRUE(rule) << rule.error().reason;
    fabric.tables.set_faults(fabric::records_of(*rule, 0, std::array{fabric.port(node, number)}));
  }

  static constexpr std::size_t kHeaderBytes = wire::kSizeOf<wire::MadHeader>;
  static constexpr std::uint64_t kWords = 72;  // LRH, BTH, DETH, 256 bytes and ICRC; or as long

  alignas(64) std::array<std::byte, fabric::FaultCounters::bytes_needed()> memory{};
  fabric::FaultCounters faults{fabric::FaultCounters::open(memory)};
  ManagedFabric fabric{*fabric::generate(GetParam() == Kind::OmniPath ? "opa:star:2" : "star:2"),
                       faults};
  Inbox inbox;
  Recorder recorder;
  fabric::PortIndex h1{fabric.port("h1", 1)};
  fabric::PortIndex h2{fabric.port("h2", 1)};
};

TEST_P(PacketKinds, CountAtEveryPortThatTheyCross) {
  send();
  EXPECT_EQ(arrived(), 1U);
  for (const auto& [sender, number] : {
           std::pair{"h1", 1},
           {"s1", 2}
  }) {
    const PortCounters expected{.xmit_packets = 1, .xmit_data = kWords, .unicast_xmit_packets = 1};
    EXPECT_EQ(at(sender, number), expected) << sender;
  }
  for (const auto& [receiver, number] : {
           std::pair{"s1", 1},
           {"h2", 1}
  }) {
    const PortCounters expected{.rcv_packets = 1, .rcv_data = kWords, .unicast_rcv_packets = 1};
    EXPECT_EQ(at(receiver, number), expected) << receiver;
  }
}

TEST_P(PacketKinds, AreLostByRules) {
  add_rule("drop", "s1", 2);
  send();
  EXPECT_EQ(arrived(), 0U);
  EXPECT_EQ(at("s1", 1).rcv_packets, 1U);
  EXPECT_EQ(at("s1", 2).xmit_discards, 1U);
  EXPECT_EQ(at("s1", 2).xmit_packets, 0U);
  EXPECT_EQ(faults.read(0).hit, 1U);
}

TEST_P(PacketKinds, ArriveDamaged) {
  add_rule("corrupt", "s1", 2);
  send();
  EXPECT_EQ(arrived(), 0U);
  EXPECT_EQ(at("s1", 2).xmit_packets, 1U);
  EXPECT_EQ(at("h2", 1).rcv_errors, 1U);
}

TEST_P(PacketKinds, ComeTwice) {
  add_rule("duplicate", "h1", 1);
  send();
  EXPECT_EQ(arrived(), 2U);
  EXPECT_EQ(at("h2", 1).rcv_packets, 2U);
}

TEST_P(PacketKinds, AreHeldBackByRules) {
  add_rule("reorder by=300us", "s1", 2);
  send();
  pass(Duration::microseconds(299));
  EXPECT_EQ(arrived(), 0U);
  pass(Duration::microseconds(1));
  EXPECT_EQ(arrived(), 1U);
}

TEST_P(PacketKinds, TakeTheDelayOfEachCable) {
  fabric.tables.set_link(h1, 0, Duration::milliseconds(1));
  fabric.tables.set_link(h2, 0, Duration::milliseconds(3));
  send();
  pass(Duration::microseconds(3'999));
  EXPECT_EQ(arrived(), 0U);
  pass(Duration::microseconds(1));
  EXPECT_EQ(arrived(), 1U);
}

TEST_P(PacketKinds, WaitForTheirOwnKindOnALinkWithARate) {
  fabric.tables.set_link(h1, 8, {});  // a microsecond a byte
  send();
  send();
  EXPECT_EQ(fabric.network.deadline(), fabric.now + Duration::microseconds(4 * kWords));
  pass(Duration::microseconds(2 * 4 * kWords - 1));
  EXPECT_EQ(arrived(), 1U);
  pass(Duration::microseconds(1));
  EXPECT_EQ(arrived(), 2U);
}

/// Programs use the same clocks, in memory that all processes share.
TEST_P(PacketKinds, TakeTheLinkFromData) {
  fabric.tables.set_link(h1, 8, {});
  send();
  const auto data = fabric.clocks.reserve_cable(fabric.now, 100, h1, {8});
  ASSERT_TRUE(data);
  EXPECT_EQ(data->starts - fabric.now, Duration::microseconds(4 * kWords));
}

TEST_P(PacketKinds, WaitForDataUnlessTheyAreSmps) {  // IBTA vol 1 §7.6.9
  fabric.tables.set_link(h1, 8, {});
  static_cast<void>(fabric.clocks.reserve_cable(fabric.now, 1'000, h1, {8}));
  send();
  const Duration own = Duration::microseconds(4 * kWords);
  const Duration behind = GetParam() == Kind::Smp ? Duration{} : Duration::milliseconds(1);
  EXPECT_EQ(fabric.network.deadline(), fabric.now + behind + own);
}

TEST_P(PacketKinds, AreDiscardedAtACutCable) {
  fabric.tables.set_link_state(h2, PortState::Down);
  send();
  EXPECT_EQ(arrived(), 0U);
  EXPECT_EQ(at("s1", 1).rcv_packets, 1U);
  EXPECT_EQ(at("s1", 2).xmit_discards, 1U);
  EXPECT_EQ(fabric.network.counters().link_down, 1U);
}

TEST_P(PacketKinds, CountAsRelayErrorsWhereNoTableKnowsTheLid) {
  send(Lid{40});
  EXPECT_EQ(at("s1", 1).rcv_packets, 1U);
  EXPECT_EQ(at("s1", 1).rcv_switch_relay_errors, 1U);
  EXPECT_EQ(fabric.counters.read_details(fabric.port("s1", 1), fabric.now)
                .of(fabric::PathEnd::DlidMapping),
            1U);
  EXPECT_EQ(fabric.network.counters().no_route, 1U);
}

TEST_P(PacketKinds, CountAsMalformedAtAnHcaThatDoesNotOwnTheLid) {
  route(Lid{40}, PortNumber{2});
  send(Lid{40});
  EXPECT_EQ(at("h2", 1).rcv_packets, 1U);
  EXPECT_EQ(at("h2", 1).rcv_errors, 1U);
  EXPECT_EQ(fabric.network.counters().unroutable, 1U);
}

TEST_P(PacketKinds, CountAsLoopingWhereATableLeadsBack) {
  route(Lid{40}, PortNumber{1});
  send(Lid{40});
  EXPECT_EQ(at("s1", 1).rcv_switch_relay_errors, 1U);
  EXPECT_EQ(at("s1", 1).xmit_packets, 0U);
}

TEST_P(PacketKinds, AreShownToCapturesOrWaitForThem) {
  fabric.tables.set_tapped(h2, true);
  recorder.has_room_now = false;
  send();
  EXPECT_EQ(arrived(), 0U);
  recorder.has_room_now = true;
  pass(ManagementNetwork::kBetweenLooks);
  EXPECT_EQ(arrived(), 1U);
  ASSERT_EQ(recorder.seen.size(), 1U);
  EXPECT_EQ(recorder.seen[0].ingress, h2);
}

INSTANTIATE_TEST_SUITE_P(Carriage, PacketKinds,
                         ::testing::Values(Kind::Smp, Kind::Gmp, Kind::Datagram, Kind::OmniPath));

}  // namespace
}  // namespace weft::carriage
