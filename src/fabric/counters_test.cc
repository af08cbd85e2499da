#include "fabric/counters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "base/random.h"
#include "fabric/testing/running_fabric.h"

namespace weft::fabric {
namespace {

using testing::RunningFabric;

/// One process: a counter page and its owner.
class Process {
 public:
  explicit Process(NodeIndex owner, CounterPageLimits limits = {.entries = 64, .hops = 512})
      : owner_(owner),
        lines_((CounterPage::bytes_needed(limits) + sizeof(Line) - 1) / sizeof(Line)),
        page(CounterPage::format(memory(), limits)) {}

  [[nodiscard]] MutableByteSpan memory() { return std::as_writable_bytes(std::span{lines_}); }
  [[nodiscard]] OwnedCounterPage owned() {
    auto opened = CounterPageView::open(memory());
    EXPECT_TRUE(opened) << opened.error().reason;
    return {*opened, owner_};
  }

 private:
  struct alignas(64) Line {
    std::array<std::byte, 64> bytes;
  };
  NodeIndex owner_;
  std::vector<Line> lines_;

 public:
  CounterPage page;
};

CounterSum sum_of(const TablesView& view, const OwnedCounterPage& page) {
  CounterSum sum;
  page.page.add_to(sum, view, page.owner);
  return sum;
}

TEST(Counters, OfAPathStandAtEachPortThatItCrosses) {
  const RunningFabric fabric{*generate_fat_tree(4, 2)};
  const TablesView view = fabric.view();
  Process process{fabric.node("h1")};
  const Path path = resolve(view, fabric.port("h1", 1), fabric.lid("h8"));
  ASSERT_EQ(path.hops.size(), 4U);
  process.page.open(path, {}).count(3, 300);
  const CounterSum sum = sum_of(view, process.owned());
  PortCounters sent;
  sent.xmit_packets = sent.unicast_xmit_packets = 3;
  sent.xmit_data = 300;
  PortCounters received;
  received.rcv_packets = received.unicast_rcv_packets = 3;
  received.rcv_data = 300;
  std::vector<PortCounters> expected(view.ports().size());
  for (const Hop& hop : path.hops) {
    expected[hop.egress.value()] = sent;
    expected[hop.ingress.value()] = received;
  }
  EXPECT_EQ(sum.ports, expected);
  EXPECT_EQ(sum.refused_entries, 0U);
}

TEST(Counters, AddUpForRandomTraffic) {
  const RunningFabric fabric{*generate_fat_tree(4, 3)};
  const TablesView view = fabric.view();
  const std::vector<PortIndex> ports = fabric.hca_ports();
  Random random{7};
  CounterLedger ledger{view.ports().size()};
  std::vector<std::unique_ptr<Process>> processes;
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  std::uint64_t lost = 0;
  for (const PortIndex source : ports) {
    auto& process = *processes.emplace_back(
        std::make_unique<Process>(view.port(source).node, CounterPageLimits{256, 2048}));
    for (int i = 0; i < 100; ++i) {
      Path path = resolve(view, source, Lid{static_cast<std::uint32_t>(1 + random.below(60))});
      const bool is_loopback = path.hops.empty();
      if (!is_loopback && random.chance(1, 5)) {
        path = discarded_at(path, random.below(path.hops.size()));
      }
      const std::uint64_t packets = random.below(1000);
      const std::uint64_t discarded = is_loopback || !path.is_delivered() ? 0 : random.below(10);
      PathEntry& entry = process.page.open(path, {});
      entry.count(packets, packets * 9);
      entry.count_discarded(discarded, discarded * 9);
      const bool leaves = !path.hops.empty();
      sent += leaves ? packets + (path.hops.size() > 1 ? discarded : 0) : 0;
      received += path.is_delivered() && leaves && !view.port(path.destination).is_switch_port()
                      ? packets
                      : 0;
      lost += discarded + (path.is_delivered() ? 0 : packets);
    }
  }
  std::vector<OwnedCounterPage> live;
  for (std::size_t i = 0; i < processes.size(); ++i) {  // some have ended
    if (i % 3 == 0) {
      ledger.fold(view, processes[i]->owned());
    } else {
      live.push_back(processes[i]->owned());
    }
  }
  const CounterSum sum = ledger.read(view, live);
  std::uint64_t counted_sent = 0;
  std::uint64_t counted_received = 0;
  std::uint64_t counted_lost = 0;
  for (std::size_t i = 0; i < view.ports().size(); ++i) {
    const PortRecord& port = view.ports()[i];
    const PortCounters& counters = sum.ports[i];
    if (port.peer != kNoPort) {
      EXPECT_EQ(counters.xmit_packets, sum.ports[port.peer.value()].rcv_packets);
      EXPECT_EQ(counters.xmit_data, sum.ports[port.peer.value()].rcv_data);
      EXPECT_EQ(counters.xmit_data, 9 * counters.xmit_packets);
    }
    counted_sent += port.is_switch_port() ? 0 : counters.xmit_packets;
    counted_received += port.is_switch_port() ? 0 : counters.rcv_packets;
    counted_lost += counters.xmit_discards + counters.rcv_errors + counters.rcv_switch_relay_errors;
  }
  EXPECT_EQ(counted_sent, sent);
  EXPECT_EQ(counted_received, received);
  EXPECT_EQ(counted_lost, lost);
  EXPECT_EQ(sum.refused_entries, 0U);
  EXPECT_EQ(sum.overflow_packets, 0U);
}

TEST(Counters, WhatEntersASwitchLeavesItOrIsDiscardedThere) {
  const RunningFabric fabric{*generate_star(4)};
  const TablesView view = fabric.view();
  Process process{fabric.node("h1")};
  const Path path = resolve(view, fabric.port("h1", 1), fabric.lid("h2"));
  PathEntry& entry = process.page.open(path, {});
  entry.count(10, 100);
  entry.count_discarded(4, 40);
  entry.count_damaged(1);
  entry.count_wait(Duration::microseconds(2));
  process.page.open(resolve(view, fabric.port("h1", 1), Lid{99}), {}).count(5, 50);
  const CounterSum sum = sum_of(view, process.owned());
  EXPECT_EQ(sum.ports[fabric.port("h1", 1).value()].xmit_packets, 19U);
  EXPECT_EQ(sum.ports[fabric.port("s1", 1).value()].rcv_packets, 19U);
  EXPECT_EQ(sum.ports[fabric.port("s1", 1).value()].rcv_switch_relay_errors, 5U);
  EXPECT_EQ(sum.ports[fabric.port("s1", 2).value()].xmit_packets, 10U);
  EXPECT_EQ(sum.ports[fabric.port("s1", 2).value()].xmit_discards, 4U);
  EXPECT_EQ(sum.ports[fabric.port("s1", 2).value()].xmit_wait, 2000U);
  EXPECT_EQ(sum.ports[fabric.port("h2", 1).value()].rcv_packets, 10U);
  EXPECT_EQ(sum.ports[fabric.port("h2", 1).value()].rcv_errors, 1U);
}

TEST(Counters, OfADropCountWhereItHappens) {
  RunningFabric fabric{*generate_star(3)};
  fabric.builder.set_link_state(fabric.port("h3", 1), PortState::Down);
  fabric.publish();
  const TablesView view = fabric.view();
  Process process{fabric.node("h1")};
  process.page.open(resolve(view, fabric.port("h1", 1), fabric.lid("h3")), {}).count(2, 20);
  process.page.open(resolve(view, fabric.port("h3", 1), fabric.lid("h1")), {}).count(9, 90);
  process.page.open(resolve(view, fabric.port("h1", 1), Lid{0}), {}).count(1, 10);
  const CounterSum sum = sum_of(view, process.owned());
  EXPECT_EQ(sum.ports[fabric.port("s1", 1).value()].rcv_packets, 3U);
  EXPECT_EQ(sum.ports[fabric.port("s1", 1).value()].rcv_switch_relay_errors, 1U);
  EXPECT_EQ(sum.ports[fabric.port("s1", 3).value()].xmit_discards, 2U);
  EXPECT_EQ(sum.ports[fabric.port("s1", 3).value()].xmit_packets, 0U);
  EXPECT_EQ(sum.ports[fabric.port("h1", 1).value()].xmit_packets, 3U);
  EXPECT_EQ(sum.ports[fabric.port("h1", 1).value()].xmit_discards, 0U);
  EXPECT_EQ(sum.refused_entries, 1U) << "h1 cannot send from h3";
}

TEST(Counters, OfAMulticastCountEachCableOnceAndLostBranches) {
  RunningFabric fabric{*generate_fat_tree(4, 2)};
  fabric.builder.set_link_state(fabric.port("h8", 1), PortState::Down);
  fabric.publish();
  const TablesView view = fabric.view();
  Process process{fabric.node("h1")};
  const MulticastTree tree = resolve_multicast(view, fabric.port("h1", 1), kBroadcastMlid);
  process.page.open(tree, {}).count(2, 20);
  const CounterSum sum = sum_of(view, process.owned());
  EXPECT_EQ(sum.refused_entries, 0U);
  for (const char* name : {"h2", "h3", "h7"}) {
    const PortCounters& counters = sum.ports[fabric.port(name, 1).value()];
    EXPECT_EQ(counters.multicast_rcv_packets, 2U) << name;
    EXPECT_EQ(counters.unicast_rcv_packets, 0U);
    EXPECT_EQ(counters.rcv_data, 20U);
  }
  EXPECT_EQ(sum.ports[fabric.port("h1", 1).value()].xmit_packets, 2U);
  EXPECT_EQ(sum.ports[view.port(fabric.port("h8", 1)).peer.value()].xmit_discards, 2U);
}

TEST(Counters, ALoopbackCrossesNoLink) {
  const RunningFabric fabric{generate_pair()};
  Process process{fabric.node("h1")};
  process.page.open(resolve(fabric.view(), fabric.port("h1", 1), fabric.lid("h1")), {})
      .count(5, 50);
  const CounterSum sum = sum_of(fabric.view(), process.owned());
  EXPECT_EQ(sum.ports, std::vector<PortCounters>(2));
  EXPECT_EQ(sum.refused_entries, 0U);
}

TEST(Counters, ThatFindThePageFullAreKeptTogether) {
  const RunningFabric fabric{generate_pair()};
  Process process{
      fabric.node("h1"), {.entries = 3, .hops = 100}
  };
  const Path path = resolve(fabric.view(), fabric.port("h1", 1), fabric.lid("h2"));
  for (int i = 0; i < 10; ++i) {
    process.page.open(path, {}).count(1, 7);
  }
  EXPECT_TRUE(process.page.is_full());
  const CounterSum sum = sum_of(fabric.view(), process.owned());
  EXPECT_EQ(sum.ports[0].xmit_packets, 2U);
  EXPECT_EQ(sum.overflow_packets, 8U);
  EXPECT_EQ(sum.overflow_data, 56U);
}

TEST(Counters, TheOverflowEntryMayBeWrittenByManyThreads) {
  const RunningFabric fabric{generate_pair()};
  Process process{
      fabric.node("h1"), {.entries = 1, .hops = 1}
  };
  const Path path = resolve(fabric.view(), fabric.port("h1", 1), fabric.lid("h2"));
  PathEntry& one = process.page.open(path, {});
  PathEntry& other = process.page.open(path, {});
  constexpr int kEach = 20'000;
  const auto work = [](PathEntry& entry) {
    for (int i = 0; i < kEach; ++i) {
      entry.count(1, 1);
    }
  };
  {
    const std::jthread first{[&] { work(one); }};
    const std::jthread second{[&] { work(other); }};
  }
  EXPECT_EQ(sum_of(fabric.view(), process.owned()).overflow_packets, 2U * kEach);
}

TEST(Counters, OfAPathThatTheOwnerCannotHaveAreRefused) {
  const RunningFabric fabric{*generate_fat_tree(4, 2)};
  const TablesView view = fabric.view();
  const Path path = resolve(view, fabric.port("h2", 1), fabric.lid("h8"));
  const auto refused = [&](const Path& claimed) {
    Process process{fabric.node("h1")};
    process.page.open(claimed, {}).count(1'000'000, 1);
    const CounterSum sum = sum_of(view, process.owned());
    EXPECT_EQ(sum.ports, std::vector<PortCounters>(view.ports().size()));
    return sum.refused_entries == 1;
  };
  EXPECT_TRUE(refused(path));  // starts at another host
  Path jump = resolve(view, fabric.port("h1", 1), fabric.lid("h8"));
  jump.hops.erase(jump.hops.begin() + 1);
  EXPECT_TRUE(refused(jump));  // a cable is missing
  Path elsewhere = resolve(view, fabric.port("h1", 1), Lid{500});
  elsewhere.stopped_at = fabric.port("h8", 1);
  EXPECT_TRUE(refused(elsewhere));  // dropped where the packet never was
  Path null_lane = resolve(view, fabric.port("h1", 1), fabric.lid("h8"));
  null_lane.hops.back().egress = PortIndex{0x7FFF'0000};
  EXPECT_TRUE(refused(null_lane));
}

TEST(Counters, PagesOfForeignBytesAreRefusedOrSafe) {
  const RunningFabric fabric{*generate_fat_tree(4, 2)};
  const TablesView view = fabric.view();
  Random random{3};
  for (int round = 0; round < 2000; ++round) {
    Process process{
        fabric.node("h1"), {.entries = 8, .hops = 64}
    };
    process.page.open(resolve(view, fabric.port("h1", 1), fabric.lid("h8")), {}).count(1, 1);
    process.page.open(resolve_multicast(view, fabric.port("h1", 1), kBroadcastMlid), {})
        .count(1, 1);
    for (int flips = 0; flips < 4; ++flips) {
      process.memory()[random.below(process.memory().size())] =
          static_cast<std::byte>(random.below(256));
    }
    if (const auto page = CounterPageView::open(process.memory())) {
      CounterSum sum;
      page->add_to(sum, view, fabric.node("h1"));
      EXPECT_EQ(sum.ports.size(), view.ports().size());
    }
  }
}

TEST(Ledger, KeepsTheDeadAndASetMovesOnlyItsPort) {
  const RunningFabric fabric{generate_pair()};
  const TablesView view = fabric.view();
  const Path path = resolve(view, fabric.port("h1", 1), fabric.lid("h2"));
  CounterLedger ledger{view.ports().size()};
  {
    Process dead{fabric.node("h1")};
    dead.page.open(path, {}).count(10, 100);
    ledger.fold(view, dead.owned());
  }
  Process process{fabric.node("h1")};
  PathEntry& entry = process.page.open(path, {});
  entry.count(1, 10);
  const std::array<OwnedCounterPage, 1> live = {process.owned()};
  CounterSum sum = ledger.read(view, live);
  EXPECT_EQ(sum.ports[0].xmit_packets, 11U);

  PortCounters value;
  value.xmit_packets = 100;
  ledger.set(PortIndex{0}, sum.ports[0], value);
  entry.count(2, 20);
  sum = ledger.read(view, live);
  EXPECT_EQ(sum.ports[0].xmit_packets, 102U);
  EXPECT_EQ(sum.ports[0].xmit_data, 20U);
  EXPECT_EQ(sum.ports[1].rcv_packets, 13U);

  ledger.own(PortIndex{1}).xmit_packets += 4;
  EXPECT_EQ(ledger.read(view, live).ports[1].xmit_packets, 4U);
}

/// v1 sends by the port of h1, whose function it is, and later by that of h2.
TEST(Counters, OfAVirtualFunctionStandAtThePortsThatItHasShared) {
  Topology topology = *generate_star(3);
  RunningFabric fabric{topology};
  topology.hosts.push_back(make_host("v1", 1, 1));
  fabric.builder.grow(topology, {});
  fabric.builder.set_management_levels(fabric.port("h1", 1), 1U << 3);
  fabric.publish();
  const TablesView view = fabric.view();
  const NodeIndex v1 = fabric.node("v1");
  Process process{v1};
  for (const std::string_view host : {"h1", "h2", "h3"}) {
    const Path path = resolve(view, fabric.port(host, 1), fabric.lid(host == "h3" ? "h1" : "h3"));
    process.page.open(path, {}).count(3, 300);
  }
  const Path barred = resolve(view, fabric.port("h1", 1), fabric.lid("h3"), ServiceLevel{3});
  process.page.open(barred, ServiceLevel{3}).count(7, 700);
  OwnedCounterPage page = process.owned();
  page.shared = {fabric.node("h1"), fabric.node("h2")};
  CounterSum sum;
  page.page.add_to(sum, view, page.owner, page.shared);
  const auto at = [&](std::string_view host) -> const PortCounters& {
    return sum.ports.at(fabric.port(host, 1).value());
  };
  EXPECT_EQ(at("h1").xmit_packets, 3U);
  EXPECT_EQ(at("h2").xmit_packets, 3U);
  EXPECT_EQ(at("h3").rcv_packets, 6U);
  EXPECT_EQ(at("h1").xmit_discards, 7U);
  EXPECT_EQ(sum.on_management_lane, (std::map<NodeIndex, std::uint64_t>{
                                        {v1, 7}
  }));
  // To a port that it shares lead the answers that it spared a peer, as for any host.
  EXPECT_EQ(sum.refused_entries, 0U);
  EXPECT_EQ(at("h3").xmit_packets, 3U);
  const CounterSum alone = sum_of(view, process.owned());
  EXPECT_EQ(alone.refused_entries, 4U) << "who shares no port sends by none";
}

}  // namespace
}  // namespace weft::fabric
