// MADs on cables: what ports count of them, and what rules of faults do to them.

#include "carriage/cables.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "agents/testing/managed_fabric.h"

namespace weft::carriage {
namespace {

using agents::testing::ManagedFabric;
using agents::testing::star;
using fabric::FaultKind;
using fabric::PathEnd;
using fabric::PortCounters;
using wire::SmpAttribute;

constexpr std::uint64_t kWords = 72;  // LRH, BTH, DETH, MAD and ICRC

class MadsOnLinks : public ::testing::Test {
 protected:
  MadsOnLinks() { fabric.manage_star(); }

  const PortCounters& at(const char* node, int number) {
    return fabric.counters.ports[fabric.port(node, number).value()];
  }
  fabric::PortDetails details(const char* node, int number) {
    return fabric.counters.read_details(fabric.port(node, number), start);
  }
  /// h1 asks h2 by way of s1.
  bool asks_h2() {
    return fabric.ask(h1, {.attribute = SmpAttribute::NodeInfo}, {1, 2}).has_value();
  }
  /// Of NodeInfo of h2, asked by its LID.
  Duration round_trip() {
    fabric.delivered.clear();
    fabric.network.send(h1, mad::InterfaceKind::Smi,
                        {.address = {.lid = Lid{2}},
                         .bytes = ManagedFabric::routed({.attribute = SmpAttribute::NodeInfo})});
    Instant now = start;
    while (fabric.network.run(100, now) || fabric.delivered.empty()) {
      now = std::max(now, fabric.network.deadline());
      if (now > start + Duration::seconds(1)) {
        ADD_FAILURE() << "no answer";
        break;
      }
    }
    return now - start;
  }
  void add_rule(FaultKind kind, const char* node, int number, Duration hold = {}) {
    fabric::FaultDescription rule;
    rule.kind = kind;
    rule.hold = hold;
    const std::array egress{fabric.port(node, number)};
    fabric.tables.set_faults(fabric::records_of(rule, 0, egress));
  }

  alignas(64) std::array<std::byte, fabric::FaultCounters::bytes_needed()> memory{};
  fabric::FaultCounters faults{fabric::FaultCounters::open(memory)};
  ManagedFabric fabric{star(), faults};
  fabric::PortIndex h1{fabric.port("h1", 1)};
  const Instant start{Duration::seconds(1)};
};

TEST_F(MadsOnLinks, CountAtEveryPortThatTheyCross) {
  ASSERT_TRUE(asks_h2());
  for (const auto& [node, number] : {
           std::pair{"h1", 1},
           {"s1", 1},
           {"s1", 2},
           {"h2", 1}
  }) {
    const PortCounters expected{.xmit_packets = 1,
                                .xmit_data = kWords,
                                .rcv_packets = 1,
                                .rcv_data = kWords,
                                .unicast_xmit_packets = 1,
                                .unicast_rcv_packets = 1};
    EXPECT_EQ(at(node, number), expected) << node << ":" << number;
  }
  EXPECT_EQ(at("s1", 0), PortCounters{});  // it has no cable
}

TEST_F(MadsOnLinks, CountByTheirServiceLevel) {
  fabric.network.send(h1, mad::InterfaceKind::Gsi,
                      {
                          .address = {.lid = Lid{2}, .sl = ServiceLevel{9}},
                            .bytes = {}
  });
  fabric.run();
  ASSERT_TRUE(asks_h2());
  fabric::PortDetails::BySl expected{};
  expected[0] = kWords;
  expected[9] = kWords;
  EXPECT_EQ(details("h1", 1).xmit_data, expected);
  EXPECT_EQ(details("s1", 1).rcv_data, expected);
  EXPECT_EQ(details("s1", 2).xmit_data, expected);
  EXPECT_EQ(details("h2", 1).rcv_data, expected);
}

TEST_F(MadsOnLinks, HaveAGlobalRouteHeaderOnTheWireToo) {
  fabric.network.send(h1, mad::InterfaceKind::Gsi,
                      {
                          .address = {.lid = Lid{2}, .global = mad::GlobalRoute{}},
                            .bytes = {}
  });
  fabric.run();
  EXPECT_EQ(at("h2", 1).rcv_data, kWords + 10);
}

// docs/ARCHITECTURE.md, decision 8.
TEST_F(MadsOnLinks, TakeTheDelayOfEachCableBothWays) {
  fabric.tables.set_link(h1, 0, Duration::milliseconds(1));
  fabric.tables.set_link(fabric.port("h2", 1), 0, Duration::milliseconds(3));
  EXPECT_EQ(round_trip(), Duration::milliseconds(8));
}

// The slowest link counts once each way, for switches cut through: 290 bytes from LRH to ICRC.
TEST_F(MadsOnLinks, TakeTheirTimeOnTheSlowestLink) {
  fabric.tables.set_link(h1, 8, {});
  fabric.tables.set_link(fabric.port("h2", 1), 4, {});
  EXPECT_EQ(round_trip(), Duration::microseconds(2 * 4 * kWords * 8 / 4));
}

TEST_F(MadsOnLinks, WaitForThoseBeforeThemOnALinkWithARate) {
  fabric.tables.set_link(h1, 8, {});  // a microsecond a byte
  for (int i = 0; i < 10; ++i) {
    fabric.network.send(h1, mad::InterfaceKind::Gsi, {.address = {.lid = Lid{2}}, .bytes = {}});
  }
  EXPECT_FALSE(fabric.network.run(100, start));
  EXPECT_EQ(fabric.delivered.size(), 0U);
  EXPECT_EQ(fabric.network.deadline(), start + Duration::microseconds(4 * kWords));
  EXPECT_FALSE(fabric.network.run(100, start + Duration::microseconds(10 * 4 * kWords - 1)));
  EXPECT_EQ(fabric.delivered.size(), 9U);
  EXPECT_FALSE(fabric.network.run(100, start + Duration::microseconds(10 * 4 * kWords)));
  EXPECT_EQ(fabric.delivered.size(), 10U);
}

TEST_F(MadsOnLinks, AreDiscardedWhenTheyWouldWaitForLongerThanALifetime) {
  fabric.tables.set_link(h1, 1, {});  // 2.3 ms each, so that 466 wait for 1.07 s
  for (int i = 0; i < 1'000; ++i) {
    fabric.network.send(h1, mad::InterfaceKind::Gsi, {.address = {.lid = Lid{2}}, .bytes = {}});
  }
  EXPECT_FALSE(fabric.network.run(2'000, start));
  EXPECT_EQ(at("h1", 1).xmit_discards, 1'000U - at("h1", 1).xmit_packets);
  EXPECT_NEAR(static_cast<double>(at("h1", 1).xmit_packets), 467, 2);
  EXPECT_EQ(details("h1", 1).of(PathEnd::HeadOfQueueLimit), at("h1", 1).xmit_discards);
}

TEST_F(MadsOnLinks, AreDiscardedWhereALinkDoesNotCarryThem) {
  fabric.tables.set_state(fabric.port("h2", 1), fabric::PortState::Down);
  EXPECT_FALSE(asks_h2());
  EXPECT_EQ(at("s1", 2).xmit_discards, 1U);
  EXPECT_EQ(details("s1", 2).of(PathEnd::PortInactive), 1U);
  EXPECT_EQ(at("s1", 2).xmit_packets, 0U);
}

TEST_F(MadsOnLinks, AreLostByRules) {
  add_rule(FaultKind::Drop, "s1", 2);
  EXPECT_FALSE(asks_h2());
  EXPECT_EQ(at("s1", 2).xmit_discards, 1U);
  EXPECT_EQ(details("s1", 2).of(PathEnd::PortInactive), 1U);
  EXPECT_EQ(at("s1", 2).xmit_packets, 0U);
  EXPECT_EQ(at("s1", 1).rcv_packets, 1U);
  EXPECT_EQ(fabric.network.counters().lost, 1U);
  EXPECT_EQ(faults.read(0).hit, 1U);
  fabric.tables.set_faults({});
  EXPECT_TRUE(asks_h2());
}

TEST_F(MadsOnLinks, AreSubjectToRulesThatMatchThem) {
  fabric::FaultDescription rule;
  rule.kind = FaultKind::Drop;
  rule.dest_qp = kQp0;
  fabric.tables.set_faults(fabric::records_of(rule, 0, {}));
  EXPECT_FALSE(asks_h2());
  rule.dest_qp = kQp1;
  fabric.tables.set_faults(fabric::records_of(rule, 0, {}));
  EXPECT_TRUE(asks_h2());
  rule.dest_qp = {};
  rule.opcodes = {"rc-*"};
  fabric.tables.set_faults(fabric::records_of(rule, 0, {}));
  EXPECT_TRUE(asks_h2());
}

TEST_F(MadsOnLinks, ArriveDamagedAndAreDiscardedThere) {
  add_rule(FaultKind::Corrupt, "s1", 2);
  EXPECT_FALSE(asks_h2());
  EXPECT_EQ(at("s1", 2).xmit_packets, 1U);
  EXPECT_EQ(at("h2", 1).rcv_packets, 1U);
  EXPECT_EQ(at("h2", 1).rcv_errors, 1U);
  EXPECT_EQ(details("h2", 1).of(PathEnd::Damaged), 1U);
  EXPECT_EQ(at("h2", 1).xmit_packets, 0U);
}

TEST_F(MadsOnLinks, AreAnsweredTwiceWhenTheyComeTwice) {
  add_rule(FaultKind::Duplicate, "h1", 1);
  EXPECT_TRUE(asks_h2());
  EXPECT_EQ(fabric.delivered.size(), 2U);
  EXPECT_EQ(at("h2", 1).rcv_packets, 2U);
  EXPECT_EQ(at("h2", 1).xmit_packets, 2U);
}

TEST_F(MadsOnLinks, WaitWhileARuleHoldsThemBack) {
  add_rule(FaultKind::Reorder, "h1", 1, Duration::microseconds(100));
  EXPECT_FALSE(asks_h2());
  EXPECT_EQ(fabric.network.deadline(), fabric.now + Duration::microseconds(100));
  fabric.now = fabric.now + Duration::microseconds(99);
  fabric.run();
  EXPECT_TRUE(fabric.delivered.empty());
  fabric.now = fabric.now + Duration::microseconds(1);
  fabric.run();
  EXPECT_EQ(fabric.delivered.size(), 1U);
}

/// Keeps what it sees.
struct Recorder final : LinkTap {
  struct Seen {
    fabric::Hop hop;
    Lid slid;
    Lid dlid;
    Psn psn;
    std::uint8_t hop_pointer{};
  };
  [[nodiscard]] bool has_room(std::span<const fabric::Hop> /*hops*/, std::size_t /*bytes*/,
                              std::size_t /*packets*/) override {
    return has_room_now;
  }
  void show(const fabric::Hop& hop, const PacketOnCable& mad) override {
    const auto header = wire::unpack<wire::SmpDirectedHeader>(std::span{mad.bytes}.first<24>());
    seen.push_back({hop, mad.slid, mad.dlid, mad.psn, header.hop_pointer});
  }
  std::vector<Seen> seen;
  bool has_room_now{true};
};

TEST_F(MadsOnLinks, AreShownAsTheyAreOnEachCableOfATappedPort) {
  Recorder recorder;
  fabric.network.set_tap(&recorder);
  EXPECT_TRUE(asks_h2());
  EXPECT_TRUE(recorder.seen.empty());
  fabric.tables.set_tapped(fabric.port("s1", 2), true);
  EXPECT_TRUE(asks_h2());
  ASSERT_EQ(recorder.seen.size(), 2U);
  EXPECT_EQ(recorder.seen[0].hop.egress, fabric.port("s1", 2));
  EXPECT_EQ(recorder.seen[1].hop.egress, fabric.port("h2", 1));
  EXPECT_EQ(recorder.seen[0].slid, kPermissiveLid);  // on every hop of a directed route
  EXPECT_EQ(recorder.seen[0].dlid, kPermissiveLid);
  EXPECT_EQ(recorder.seen[0].hop_pointer, 2);
  EXPECT_EQ(recorder.seen[1].hop_pointer, 2);
  EXPECT_EQ(recorder.seen[0].psn, Psn{1});  // the second of h1's QP0
  add_rule(FaultKind::Drop, "s1", 2);
  EXPECT_FALSE(asks_h2());
  EXPECT_EQ(recorder.seen.back().hop.ingress, fabric::kNoPort);
  fabric.tables.set_faults({});
  EXPECT_TRUE(
      fabric.send(h1, ManagedFabric::routed({.attribute = SmpAttribute::NodeInfo}), Lid{2}));
  EXPECT_EQ(recorder.seen.back().slid, Lid{2});
  EXPECT_EQ(recorder.seen.back().dlid, Lid{1});
}

class MadsInCaptures : public MadsOnLinks {
 protected:
  MadsInCaptures() {
    fabric.network.set_tap(&recorder);
    fabric.tables.set_tapped(fabric.port("s1", 2), true);
  }
  void run(Duration later = {}) {
    fabric.now = fabric.now + later;
    fabric.run();
  }
  Recorder recorder;
};

TEST_F(MadsInCaptures, WaitWhereTheReaderIsBehindAndGoOnFromThere) {
  recorder.has_room_now = false;
  EXPECT_FALSE(asks_h2());
  EXPECT_EQ(at("s1", 1).rcv_packets, 1U);  // before the port with the capture
  EXPECT_EQ(at("s1", 2).xmit_packets, 0U);
  EXPECT_EQ(fabric.network.deadline(), fabric.now + ManagementNetwork::kBetweenLooks);
  run(Duration::milliseconds(900));
  EXPECT_EQ(at("s1", 2).xmit_packets, 0U);
  recorder.has_room_now = true;
  run(ManagementNetwork::kBetweenLooks);
  EXPECT_EQ(fabric.delivered.size(), 1U);
  EXPECT_EQ(recorder.seen.size(), 2U);
  EXPECT_EQ(at("h1", 1).xmit_packets, 1U) << "it crossed each cable once";
  EXPECT_EQ(at("s1", 2).xmit_packets, 1U);
}

TEST_F(MadsInCaptures, StayInOrder) {
  recorder.has_room_now = false;
  for (int i = 0; i < 5; ++i) {
    fabric.network.send(h1, mad::InterfaceKind::Gsi, {.address = {.lid = Lid{2}}, .bytes = {}});
  }
  run();
  recorder.has_room_now = true;
  fabric.network.send(h1, mad::InterfaceKind::Gsi, {.address = {.lid = Lid{2}}, .bytes = {}});
  run(ManagementNetwork::kBetweenLooks);
  ASSERT_EQ(recorder.seen.size(), 6U);
  for (std::uint32_t i = 0; i < 6; ++i) {
    EXPECT_EQ(recorder.seen[i].psn, Psn{i});
  }
}

TEST_F(MadsInCaptures, PassUnseenOnceTheReaderHasStoppedForALifetime) {
  recorder.has_room_now = false;
  EXPECT_FALSE(asks_h2());
  run(Cables::kWaitLimit);
  EXPECT_EQ(fabric.delivered.size(), 1U);
  EXPECT_TRUE(asks_h2()) << "others do not wait for it again";
  recorder.has_room_now = true;
  EXPECT_TRUE(asks_h2());
  recorder.has_room_now = false;
  EXPECT_FALSE(asks_h2()) << "it has read since";
}

TEST_F(MadsInCaptures, WaitWithoutHinderingThoseOfOtherPorts) {
  recorder.has_room_now = false;
  EXPECT_FALSE(asks_h2());
  EXPECT_TRUE(fabric.ask(h1, {.attribute = SmpAttribute::NodeInfo}, {1}));
}

TEST_F(MadsInCaptures, ThatWaitAreBounded) {
  recorder.has_room_now = false;
  for (std::size_t i = 0; i < ManagementNetwork::kWaitingForCaptures + 10; ++i) {
    fabric.network.send(h1, mad::InterfaceKind::Gsi, {.address = {.lid = Lid{2}}, .bytes = {}});
    run();
  }
  EXPECT_EQ(fabric.delivered.size(), 10U);
}

}  // namespace
}  // namespace weft::carriage
