// 16B packets between ports of an Omni-Path part; what links do to them is in packet_kinds_test.cc.

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "agents/testing/managed_fabric.h"
#include "carriage/management_network.h"
#include "carriage/omni_path_packet.h"
#include "fabric/testing/omni_path_star.h"
#include "wire/opa/mad_packet_16b.h"
#include "wire/opa/packet_16b.h"
#include "wire/opa/vema_mad.h"

namespace weft::carriage {
namespace {

using agents::testing::ManagedFabric;
using fabric::ExtendedLid;
using fabric::PortCounters;
using fabric::PortIndex;
using fabric::testing::kOmniPathGroup;
using fabric::testing::omni_path_lid;

struct Inbox final : OmniPathSink {
  struct Taken {
    PortIndex at;
    std::vector<std::byte> octets;
  };
  void take(PortIndex at, const OmniPathPacket& packet, Instant /*now*/) override {
    taken.push_back({at, packet.octets});
  }
  std::vector<Taken> taken;
};

class OmniPath : public ::testing::Test {
 protected:
  OmniPath() {
    fabric::testing::bring_up_omni_path(fabric.tables);
    fabric.network.set_sink(&inbox);
  }

  static wire::Opa16bHeader header(ExtendedLid dlid, PKey pkey = kDefaultPKey,
                                   std::uint8_t channel = 3) {
    return {.slid = Lid{omni_path_lid(1).value()},
            .service_channel = channel,
            .dlid = Lid{dlid.value()},
            .pkey = pkey,
            .vesw_id = 9};
  }
  static std::vector<std::byte> ethernet(const wire::Opa16bHeader& header, std::size_t bytes = 60) {
    return wire::to_opa_packet(header, std::vector<std::byte>(bytes, std::byte{7}));
  }
  void send(const std::vector<std::byte>& octets, const char* host = "o1") {
    const auto packet = to_omni_path_packet(octets);
    ASSERT_TRUE(packet) << packet.error().reason;
    fabric.network.send(fabric.port(host, 1), *packet);
    fabric.run();
  }
  [[nodiscard]] const PortCounters& at(const char* node, int number) const {
    return fabric.counters.ports[fabric.port(node, number).value()];
  }
  [[nodiscard]] const NetworkCounters& network() const { return fabric.network.counters(); }
  void add_rule(const char* text) {
    fabric.tables.set_faults(
        fabric::records_of(*fabric::read_fault(text), 0, std::array{fabric.port("os1", 2)}));
  }

  alignas(64) std::array<std::byte, fabric::FaultCounters::bytes_needed()> memory{};
  fabric::FaultCounters faults{fabric::FaultCounters::open(memory)};
  ManagedFabric fabric{fabric::testing::omni_path_beside_infiniband(), faults};
  Inbox inbox;
};

TEST_F(OmniPath, PacketsGoToTheOwnerOfTheirLidToTheOctet) {
  const auto packet = ethernet(header(omni_path_lid(2)), 77);
  send(packet);
  ASSERT_EQ(inbox.taken.size(), 1U);
  EXPECT_EQ(inbox.taken[0].at, fabric.port("o2", 1));
  EXPECT_EQ(inbox.taken[0].octets, packet);
  EXPECT_EQ(at("o2", 1).rcv_data, packet.size() / 4);
  EXPECT_EQ(at("o2", 1).unicast_rcv_packets, 1U);
}

TEST_F(OmniPath, PacketsOfAGroupGoToItsOtherMembers) {
  send(ethernet(header(kOmniPathGroup)));
  ASSERT_EQ(inbox.taken.size(), 2U);
  EXPECT_EQ(inbox.taken[0].at, fabric.port("o2", 1));
  EXPECT_EQ(inbox.taken[1].at, fabric.port("o3", 1));
  EXPECT_EQ(at("o3", 1).multicast_rcv_packets, 1U);
  EXPECT_EQ(at("o3", 1).unicast_rcv_packets, 0U);
  auto of_a_member = header(kOmniPathGroup);
  of_a_member.slid = Lid{omni_path_lid(3).value()};
  send(ethernet(of_a_member), "o3");
  ASSERT_EQ(inbox.taken.size(), 3U);
  EXPECT_EQ(inbox.taken[2].at, fabric.port("o2", 1));
}

TEST_F(OmniPath, MadsHave2048Octets) {
  std::vector<std::byte> mad(wire::kOpaMadBytes, std::byte{5});
  send(wire::to_opa_mad_packet(header(omni_path_lid(3)), {.source_qp = kQp1}, mad));
  ASSERT_EQ(inbox.taken.size(), 1U);
  EXPECT_EQ(inbox.taken[0].at, fabric.port("o3", 1));
  const auto parsed = wire::parse_opa_mad(inbox.taken[0].octets);
  ASSERT_TRUE(parsed) << parsed.error().reason;
  EXPECT_EQ(std::vector(parsed->mad.begin(), parsed->mad.end()), mad);
}

TEST_F(OmniPath, PacketsAreNotSentInAnothersName) {
  send(ethernet(header(omni_path_lid(2))), "o3");
  EXPECT_TRUE(inbox.taken.empty());
  EXPECT_EQ(network().unroutable, 1U);
  EXPECT_EQ(at("o3", 1).xmit_packets, 0U);
}

TEST_F(OmniPath, PacketsAreNoLongerThanOmniPathsMtuAndItsHeaders) {
  constexpr std::size_t kOverhead = 25;
  send(ethernet(header(omni_path_lid(2)), kMaxOmniPathPacketBytes - kOverhead));
  EXPECT_EQ(inbox.taken.size(), 1U);
  send(ethernet(header(omni_path_lid(2)), kMaxOmniPathPacketBytes - kOverhead + 1));
  EXPECT_EQ(inbox.taken.size(), 1U);
  EXPECT_EQ(network().too_long, 1U);
  send(ethernet(header(kOmniPathGroup), kMaxOmniPathPacketBytes - kOverhead));
  EXPECT_EQ(inbox.taken.size(), 3U);
}

TEST_F(OmniPath, DataIsNotSentOnTheChannelOfManagement) {
  send(ethernet(header(omni_path_lid(2), kDefaultPKey, OmniPathPacket::kManagementChannel)));
  EXPECT_TRUE(inbox.taken.empty());
  EXPECT_EQ(at("o1", 1).xmit_discards, 1U);
  const std::vector<std::byte> mad(wire::kOpaMadBytes);
  send(wire::to_opa_mad_packet(
      header(omni_path_lid(2), kDefaultPKey, OmniPathPacket::kManagementChannel), {}, mad));
  EXPECT_EQ(inbox.taken.size(), 1U);
}

TEST_F(OmniPath, PacketsNeedAPKeyThatBothPortsHave) {
  send(ethernet(header(omni_path_lid(2), PKey{0x8001})));
  fabric.tables.set_pkeys(fabric.port("o1", 1), std::array{PKey{0x8001}});
  send(ethernet(header(omni_path_lid(2), PKey{0x8001})));
  EXPECT_TRUE(inbox.taken.empty());
  EXPECT_EQ(network().bad_key, 2U);
  fabric.tables.set_pkeys(fabric.port("o2", 1), std::array{PKey{0x0001}});
  send(ethernet(header(omni_path_lid(2), PKey{0x8001})));
  EXPECT_EQ(inbox.taken.size(), 1U);
}

TEST_F(OmniPath, RulesOfFaultsKnowTheirLidsAndNoOpcodeIsTheirs) {
  add_rule("drop opcode=*");
  send(ethernet(header(omni_path_lid(2))));
  EXPECT_EQ(inbox.taken.size(), 1U);
  add_rule("drop dlid=0x123403");
  send(ethernet(header(omni_path_lid(2))));
  EXPECT_EQ(inbox.taken.size(), 2U);
  add_rule("drop dlid=0x123402 slid=0x123401");
  send(ethernet(header(omni_path_lid(2))));
  EXPECT_EQ(inbox.taken.size(), 2U);
  add_rule("drop");
  send(ethernet(header(kOmniPathGroup)));
  ASSERT_EQ(inbox.taken.size(), 3U);
  EXPECT_EQ(inbox.taken[2].at, fabric.port("o3", 1));
}

TEST_F(OmniPath, PacketsToAPortThatIsDownOrToASwitchEndThere) {
  fabric.tables.set_link_state(fabric.port("o2", 1), fabric::PortState::Initialize);
  send(ethernet(header(omni_path_lid(2))));
  EXPECT_EQ(at("os1", 2).xmit_discards, 1U);
  send(ethernet(header(omni_path_lid(9))));
  EXPECT_EQ(network().unroutable, 1U);
  EXPECT_TRUE(inbox.taken.empty());
}

TEST_F(OmniPath, PortsSendNothingOfInfiniBand) {
  fabric.network.send(fabric.port("o1", 1),
                      {
                          .source_qp = Qpn{0x100},
                          .to = {.lid = Lid{omni_path_lid(2).value()}, .qp = Qpn{0x101}},
                          .payload = std::vector<std::byte>(60)
  });
  fabric.network.send(fabric.port("o1", 1), mad::InterfaceKind::Gsi,
                      {.address = {.lid = Lid{2}}, .bytes = {}});
  fabric.run();
  EXPECT_EQ(network().link_down, 2U);
  EXPECT_EQ(at("o1", 1).xmit_packets, 0U);
}

struct Recorder final : LinkTap {
  [[nodiscard]] bool has_room(std::span<const fabric::Hop> /*hops*/, std::size_t bytes,
                              std::size_t /*packets*/) override {
    room = bytes;
    return true;
  }
  void show(const fabric::Hop& /*hop*/, const PacketOnCable& packet) override {
    ASSERT_NE(packet.omni_path, nullptr);
    seen.push_back(packet.omni_path->octets);
  }
  std::size_t room{};
  std::vector<std::vector<std::byte>> seen;
};

TEST_F(OmniPath, PacketsAreShownToCapturesWhole) {
  Recorder recorder;
  fabric.network.set_tap(&recorder);
  fabric.tables.set_tapped(fabric.port("o2", 1), true);
  const auto packet = ethernet(header(omni_path_lid(2)), 100);
  send(packet);
  ASSERT_EQ(recorder.seen.size(), 1U);
  EXPECT_EQ(recorder.seen[0], packet);
  EXPECT_EQ(recorder.room, packet.size());
  send(ethernet(header(kOmniPathGroup)));
  EXPECT_EQ(recorder.seen.size(), 2U);
}

TEST_F(OmniPath, PacketsThatHaveGoneTakeNoRoom) {
  const auto longest = ethernet(header(omni_path_lid(2)), kMaxOmniPathPacketBytes - 25);
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i <= ManagementNetwork::kQueuedBytes / longest.size(); ++i) {
      fabric.network.send(fabric.port("o1", 1), *to_omni_path_packet(longest));
    }
    fabric.run();
  }
  EXPECT_EQ(network().queue_full, 2U);
  EXPECT_EQ(inbox.taken.size(), 2 * (ManagementNetwork::kQueuedBytes / longest.size()));
}

}  // namespace
}  // namespace weft::carriage
