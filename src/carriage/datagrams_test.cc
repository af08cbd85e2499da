// Datagrams of hosts' kernel sides that are no MADs, between ports of a fabric.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "agents/testing/managed_fabric.h"
#include "carriage/management_network.h"
#include "verbs/mtu.h"

namespace weft::carriage {
namespace {

using agents::testing::ManagedFabric;
using agents::testing::star;
using fabric::FaultKind;
using fabric::PortCounters;

constexpr Lid kMlid{0xC001};
const Gid kMgid{0xFF12'401B'FFFF'0000, Guid{5}};

struct Inbox final : DatagramSink {
  struct Taken {
    fabric::PortIndex at;
    Qpn destination_qp;
    Gid destination_gid;
    mad::MadAddress source;
    std::vector<std::byte> payload;
  };
  void take(fabric::PortIndex at, const mad::ReceivedDatagram& datagram, Instant) override {
    taken.push_back({at, datagram.destination_qp, datagram.destination_gid, datagram.source,
                     std::vector(datagram.payload.begin(), datagram.payload.end())});
  }
  std::vector<Taken> taken;
};

class Datagrams : public ::testing::Test {
 protected:
  explicit Datagrams(const fabric::Topology& topology = star()) : fabric(topology, faults) {
    fabric.network.set_sink(&inbox);
  }
  void SetUp() override {
    fabric.manage_star();
    for (const int number : {1, 2}) {
      fabric.tables.set_multicast(fabric.node("s1"), kMlid,
                                  PortNumber{static_cast<std::uint8_t>(number)}, true);
    }
  }

  static mad::Datagram to(Lid lid, std::size_t bytes = 60) {
    mad::Datagram datagram{
        .source_qp = Qpn{0x100},
        .to = {.lid = lid, .qp = Qpn{0x101}, .qkey = QKey{0xB1B}},
        .payload = std::vector<std::byte>(bytes, std::byte{7}
          )
    };
    if (lid.is_multicast()) {
      datagram.to.qp = kMulticastQpn;
      datagram.to.global = mad::GlobalRoute{.dgid = kMgid, .hop_limit = 1};
    }
    return datagram;
  }
  void send(const mad::Datagram& datagram) {
    fabric.network.send(h1, datagram);
    fabric.run();
  }
  void add_rule(FaultKind kind, const char* node, int number, Duration hold = {}) {
    fabric::FaultDescription rule;
    rule.kind = kind;
    rule.hold = hold;
    fabric.tables.set_faults(fabric::records_of(rule, 0, std::array{fabric.port(node, number)}));
  }
  [[nodiscard]] const PortCounters& at(const char* node, int number) const {
    return fabric.counters.ports[fabric.port(node, number).value()];
  }

  alignas(64) std::array<std::byte, fabric::FaultCounters::bytes_needed()> memory{};
  fabric::FaultCounters faults{fabric::FaultCounters::open(memory)};
  ManagedFabric fabric;
  Inbox inbox;
  fabric::PortIndex h1{fabric.port("h1", 1)};
  fabric::PortIndex h2{fabric.port("h2", 1)};
};

TEST_F(Datagrams, GoToTheOwnerOfTheirLidWithTheirKeys) {
  send(to(Lid{2}));
  ASSERT_EQ(inbox.taken.size(), 1U);
  const Inbox::Taken& taken = inbox.taken[0];
  EXPECT_EQ(taken.at, h2);
  EXPECT_EQ(taken.destination_qp, Qpn{0x101});
  EXPECT_TRUE(taken.destination_gid.is_zero());
  EXPECT_EQ(taken.source.lid, Lid{1});
  EXPECT_EQ(taken.source.qp, Qpn{0x100});
  EXPECT_EQ(taken.source.qkey, QKey{0xB1B});
  EXPECT_EQ(taken.source.pkey, kDefaultPKey);
  EXPECT_EQ(taken.payload.size(), 60U);
  const PortCounters& in = at("h2", 1);
  EXPECT_EQ(in.unicast_rcv_packets, 1U);
  EXPECT_EQ(in.rcv_data, (8U + 12 + 8 + 60 + 4) / 4);
}

TEST_F(Datagrams, OfAGroupGoToAllOthersInIt) {
  send(to(kMlid, 61));
  ASSERT_EQ(inbox.taken.size(), 1U);
  EXPECT_EQ(inbox.taken[0].at, h2);
  EXPECT_EQ(inbox.taken[0].destination_gid, kMgid);
  EXPECT_EQ(inbox.taken[0].source.global->dgid, fabric.tables.gids(h1).front());
  const PortCounters& in = at("h2", 1);
  EXPECT_EQ(in.multicast_rcv_packets, 1U);
  EXPECT_EQ(in.unicast_rcv_packets, 0U);
  EXPECT_EQ(in.rcv_data, (8U + 40 + 12 + 8 + 64 + 4) / 4);  // with the pad
  fabric.tables.set_multicast(fabric.node("s1"), kMlid, PortNumber{2}, false);
  send(to(kMlid));
  EXPECT_EQ(inbox.taken.size(), 1U);
}

TEST_F(Datagrams, ToTheirOwnPortCrossNoCable) {
  send(to(Lid{1}));
  ASSERT_EQ(inbox.taken.size(), 1U);
  EXPECT_EQ(inbox.taken[0].at, h1);
  EXPECT_EQ(at("h1", 1), PortCounters{});
}

TEST_F(Datagrams, AreSubjectToFaultRules) {
  add_rule(FaultKind::Drop, "s1", 2);
  send(to(Lid{2}));
  send(to(kMlid));
  EXPECT_TRUE(inbox.taken.empty());
  EXPECT_EQ(at("s1", 2).xmit_discards, 2U);
  add_rule(FaultKind::Duplicate, "s1", 2);
  send(to(kMlid));
  EXPECT_EQ(inbox.taken.size(), 2U);
}

TEST_F(Datagrams, ThatAreHeldBackArriveLater) {
  add_rule(FaultKind::Reorder, "s1", 2, Duration::milliseconds(3));
  send(to(kMlid));
  EXPECT_TRUE(inbox.taken.empty());
  EXPECT_EQ(fabric.network.deadline(), fabric.now + Duration::milliseconds(3));
  fabric.now = fabric.now + Duration::milliseconds(3);
  fabric.run();
  EXPECT_EQ(inbox.taken.size(), 1U);
}

TEST_F(Datagrams, AreDiscardedWhereALinkDoesNotCarryThem) {
  fabric.tables.set_state(h2, fabric::PortState::Initialize);
  send(to(Lid{2}));
  send(to(kMlid));
  EXPECT_TRUE(inbox.taken.empty());
  EXPECT_EQ(at("s1", 2).xmit_discards, 2U);
}

TEST_F(Datagrams, NeedAPKeyThatBothPortsHave) {  // IBTA vol 1 §10.9.3
  fabric.tables.set_pkeys(h2, std::array{PKey{0x8001}});
  send(to(Lid{2}));
  send(to(kMlid));
  EXPECT_TRUE(inbox.taken.empty());
  EXPECT_EQ(fabric.network.counters().bad_key, 2U);
  mad::Datagram foreign = to(Lid{2});
  foreign.to.pkey = PKey{0x8001};  // which the sender has not
  send(foreign);
  EXPECT_TRUE(inbox.taken.empty());
  EXPECT_EQ(fabric.network.counters().bad_key, 3U);
}

TEST_F(Datagrams, AreNoLongerThanTheMtu) {
  send(to(Lid{2}, 4096));
  EXPECT_EQ(inbox.taken.size(), 1U);
  send(to(Lid{2}, 4097));
  fabric.tables.set_active_mtu(fabric.port("s1", 2), verbs::Mtu::Mtu2048);
  send(to(Lid{2}, 2049));
  EXPECT_EQ(inbox.taken.size(), 1U);
  EXPECT_EQ(fabric.network.counters().too_long, 2U);
  const auto details = fabric.counters.read_details(fabric.port("s1", 2), fabric.now);
  EXPECT_EQ(details.of(fabric::PathEnd::NeighborMtu), 1U);
}

TEST_F(Datagrams, ThatWaitAreBounded) {
  for (std::size_t i = 0; i < ManagementNetwork::kQueuedOfPort + 10; ++i) {
    fabric.network.send(h1, to(Lid{2}));
  }
  EXPECT_EQ(fabric.network.counters().queue_full, 10U);
  fabric.run();
  EXPECT_EQ(inbox.taken.size(), ManagementNetwork::kQueuedOfPort);
  send(to(Lid{2}));
  EXPECT_EQ(inbox.taken.size(), ManagementNetwork::kQueuedOfPort + 1);
}

TEST_F(Datagrams, ThatHaveGoneTakeNoRoom) {
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < ManagementNetwork::kQueuedBytes / 4096; ++i) {
      fabric.network.send(h1, to(Lid{2}, 4096));
    }
    fabric.network.send(h2, to(Lid{1}, 4096));  // beyond
    fabric.run();
  }
  EXPECT_EQ(inbox.taken.size(), 2 * ManagementNetwork::kQueuedBytes / 4096);
  EXPECT_EQ(fabric.network.counters().queue_full, 2U);
}

/// Keeps what it sees.
struct Recorder final : LinkTap {
  [[nodiscard]] bool has_room(std::span<const fabric::Hop> /*hops*/, std::size_t /*bytes*/,
                              std::size_t /*packets*/) override {
    return has_room_now;
  }
  void show(const fabric::Hop& hop, const PacketOnCable& mad) override {
    seen.push_back({hop, mad.sender(), mad.to.qp, mad.dlid, mad.bytes.size(), mad.psn});
  }
  struct Seen {
    fabric::Hop hop;
    Qpn source_qp;
    Qpn destination_qp;
    Lid dlid;
    std::size_t bytes;
    Psn psn;
  };
  std::vector<Seen> seen;
  bool has_room_now{true};
};

TEST_F(Datagrams, AreShownToCapturesOnEachTappedCable) {
  Recorder recorder;
  fabric.network.set_tap(&recorder);
  fabric.tables.set_tapped(h2, true);
  send(to(Lid{2}));
  send(to(kMlid));
  ASSERT_EQ(recorder.seen.size(), 2U);
  EXPECT_EQ(recorder.seen[0].hop.ingress, h2);
  EXPECT_EQ(recorder.seen[0].source_qp, Qpn{0x100});
  EXPECT_EQ(recorder.seen[0].bytes, 60U);
  EXPECT_EQ(recorder.seen[1].destination_qp, kMulticastQpn);
  EXPECT_EQ(recorder.seen[1].dlid, kMlid);
  EXPECT_EQ(recorder.seen[1].psn, recorder.seen[0].psn + 1);
}

TEST_F(Datagrams, WaitForTheReadersOfCaptures) {
  Recorder recorder;
  fabric.network.set_tap(&recorder);
  fabric.tables.set_tapped(h2, true);
  recorder.has_room_now = false;
  send(to(Lid{2}));
  send(to(kMlid));
  EXPECT_TRUE(inbox.taken.empty());
  recorder.has_room_now = true;
  fabric.now = fabric.now + ManagementNetwork::kBetweenLooks;
  fabric.run();
  EXPECT_EQ(inbox.taken.size(), 2U);
  EXPECT_EQ(recorder.seen.size(), 2U);
}

TEST_F(Datagrams, OfAGroupTakeTheTimeOfTheirLinksAndWaitThere) {
  fabric.tables.set_link(h1, 8, Duration::milliseconds(1));  // a microsecond a byte
  send(to(kMlid));
  send(to(kMlid));
  constexpr Duration kOne = Duration::microseconds(8 + 40 + 12 + 8 + 60 + 4);
  EXPECT_TRUE(inbox.taken.empty());
  EXPECT_EQ(fabric.network.deadline(), fabric.now + kOne + Duration::milliseconds(1));
  fabric.now = fabric.now + kOne * 2 + Duration::milliseconds(1);
  fabric.run();
  EXPECT_EQ(inbox.taken.size(), 2U);
}

TEST_F(Datagrams, OfAGroupThatAreTooLongForALinkEndThere) {
  fabric.tables.set_active_mtu(fabric.port("s1", 2), verbs::Mtu::Mtu2048);
  send(to(kMlid, 2049));
  EXPECT_TRUE(inbox.taken.empty());
  EXPECT_EQ(at("s1", 1).rcv_packets, 1U);
  EXPECT_EQ(at("s1", 2).xmit_discards, 1U);
  EXPECT_EQ(fabric.network.counters().too_long, 1U);
}

class DatagramsInARing : public Datagrams {
 protected:
  DatagramsInARing() : Datagrams(*fabric::generate_torus({4}, 1)) {}
  void SetUp() override {
    for (std::uint32_t i = 0; i < fabric.tables.ports().size(); ++i) {
      const fabric::PortIndex port{i};
      const fabric::PortRecord& record = fabric.tables.port(port);
      if (record.peer != fabric::kNoPort) {
        fabric.tables.set_state(port, fabric::PortState::Active);
      }
      if (record.is_switch_port()) {
        fabric.tables.set_multicast(record.node, kMlid, record.number, true);
      }
    }
  }
};

TEST_F(DatagramsInARing, OfAGroupWhoseTablesGoRoundEnd) {
  send(to(kMlid));
  std::set<fabric::PortIndex> reached;
  for (const Inbox::Taken& taken : inbox.taken) {
    EXPECT_TRUE(reached.insert(taken.at).second);
  }
  EXPECT_EQ(reached.size(), 3U);
  EXPECT_FALSE(reached.contains(h1));
}

}  // namespace
}  // namespace weft::carriage
