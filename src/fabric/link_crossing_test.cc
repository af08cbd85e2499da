// The effects of links on a packet, whoever sent it: a program that crosses a whole path at once,
// the daemon's MADs and datagrams that go cable by cable, and multicast packets edge by edge.

#include "fabric/link_crossing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fabric/counter_source.h"
#include "fabric/counters.h"
#include "fabric/link_rules.h"
#include "fabric/testing/running_fabric.h"
#include "fabric/walk.h"

namespace weft::fabric {
namespace {

using testing::RunningFabric;

constexpr Lid kMlid{0xC007};
constexpr std::uint64_t kWords = 72;
constexpr Instant kStart{Duration::seconds(1)};

enum class Way : std::uint8_t { WholePath, CableByCable, EdgeByEdge };

/// A port's counts of unicast or multicast packets.
struct Counted {
  std::uint64_t sent{};
  std::uint64_t sent_words{};
  std::uint64_t received{};
  std::uint64_t discards{};
  std::uint64_t receive_errors{};
  std::uint64_t relay_errors{};
  bool operator==(const Counted&) const = default;
};

[[nodiscard]] Counted counted(const PortCounters& port) {
  return {.sent = port.xmit_packets,
          .sent_words = port.xmit_data,
          .received = port.rcv_packets,
          .discards = port.xmit_discards,
          .receive_errors = port.rcv_errors,
          .relay_errors = port.rcv_switch_relay_errors};
}

/// Packets from h1 over s1 to h2.
class Crossing : public ::testing::TestWithParam<Way> {
 protected:
  Crossing() {
    EXPECT_TRUE(fabric.manager.join(kMlid, h1));
    EXPECT_TRUE(fabric.manager.join(kMlid, h2));
    plain.resize(fabric.builder.ports().size());
  }

  /// Returns the arrival times of the copies.
  std::vector<Instant> send(Way way, Instant now = kStart) {
    fabric.publish();
    switch (way) {
      case Way::WholePath:
        return send_whole_path(now);
      case Way::CableByCable:
        return send_cable_by_cable(now);
      case Way::EdgeByEdge:
        return send_edge_by_edge(now);
    }
    return {};
  }
  std::vector<Instant> send(Instant now = kStart) { return send(GetParam(), now); }

  [[nodiscard]] Counted at(std::string_view node, int number) {
    const PortIndex port = fabric.port(node, number);
    PortCounters sum = plain.ports[port.value()];
    CounterSum paths;
    const auto page_view = CounterPageView::open(std::as_bytes(std::span{page_memory}));
    EXPECT_TRUE(page_view);
    page_view->add_to(paths, fabric.view(), fabric.node("h1"));
    EXPECT_EQ(paths.refused_entries, 0U);
    return counted(sum += paths.ports[port.value()]);
  }

  void add_rule(std::string_view text, std::string_view node, int number) {
    const auto rule = read_fault(text);
    ASSERT_TRUE(rule) << rule.error().reason;
    fabric.builder.set_faults(records_of(*rule, 0, std::array{fabric.port(node, number)}));
  }

  [[nodiscard]] static FaultSubject subject(Lid dlid) {
    return {.opcode = wire::Opcode::UdSendOnly,
            .slid = Lid{1},
            .dlid = dlid,
            .dest_qp = Qpn{5},
            .psn = Psn{1}};
  }
  [[nodiscard]] static CrossingPacket packet(Lid dlid, Instant now) {
    return {.subject = subject(dlid), .wire_bytes = kWords * 4, .ready = now};
  }
  [[nodiscard]] Lid lid() const { return unroutable ? Lid{77} : fabric.lid("h2"); }

  // As host::Lane does.
  std::vector<Instant> send_whole_path(Instant now) {
    const Path path = resolve(fabric.view(), h1, lid());
    std::vector<Instant> arrived;
    if (!path.is_delivered()) {
      page.open(path, ServiceLevel{}).count(1, kWords);
      return arrived;
    }
    crossing.cross(path, packet(lid(), now), [&](const CrossedCopy& copy) {
      std::array<Hop, kMaxHops> room;
      for (const Hop& hop : copy.seen(path.hops, room)) {
        seen.push_back(hop);
      }
      const Path end = copy.is_delivered()            ? path
                       : copy.end == PathEnd::Damaged ? damaged_at(path, copy.hop)
                                                      : discarded_at(path, copy.hop);
      page.open(end, ServiceLevel{}).count(1, kWords);
      if (copy.is_delivered()) {
        arrived.push_back(copy.transit.arrives + copy.held_back);
      }
    });
    return arrived;
  }

  // As carriage::ManagementNetwork does.
  std::vector<Instant> send_cable_by_cable(Instant now) {
    UnicastWalk<TablesBuilder> walk{
        fabric.builder, h1, LinkAddress{Lid{1}, lid()},
          Traffic::Data
    };
    std::vector<Instant> departed{now};
    std::vector<Duration> delays{Duration{}};
    while (const auto hop = walk.next()) {
      const PortRecord& egress = fabric.builder.port(hop->egress);
      const Cable cable{.hop = *hop,
                        .rate = {egress.rate_mbps},
                        .delay = egress.delay(),
                        .rules = rules.of(hop->egress)};
      std::vector<Instant> next_departed;
      std::vector<Duration> next_delays;
      for (std::size_t i = 0; i < departed.size(); ++i) {
        crossing.cross(cable, packet(lid(), now), [&](const CrossedCopy& copy) {
          std::array<Hop, kMaxHops> room;
          const auto shown = copy.seen({&*hop, 1}, room);
          seen.insert(seen.end(), shown.begin(), shown.end());
          if (copy.is_delivered() || copy.end == PathEnd::Damaged) {
            count_crossing(plain.own(hop->egress), plain.own(hop->ingress), plain.own_details(),
                           *hop, ServiceLevel{}, false, 1, kWords);
          }
          if (!copy.is_delivered()) {
            count_drop(plain.own(copy.counted_at), plain.own_details(), copy.counted_at, copy.end,
                       1);
            return;
          }
          next_departed.push_back(std::max(departed[i], copy.transit.departs));
          next_delays.push_back(delays[i] + copy.held_back +
                                (copy.transit.arrives - copy.transit.departs));
        });
      }
      departed = std::move(next_departed);
      delays = std::move(next_delays);
      if (departed.empty()) {
        return {};
      }
    }
    if (!walk.end().is_delivered()) {
      count_drop(plain.own(walk.end().port), plain.own_details(), walk.end().port, walk.end().end,
                 1);
      return {};
    }
    std::vector<Instant> arrived;
    for (std::size_t i = 0; i < departed.size(); ++i) {
      arrived.push_back(departed[i] + delays[i]);
    }
    return arrived;
  }

  // As host::Process and carriage::ManagementNetwork do.
  std::vector<Instant> send_edge_by_edge(Instant now) {
    const MulticastTree tree = resolve_multicast(fabric.builder, h1, kMlid);
    std::vector<EdgeCrossing> edges;
    std::vector<Transit> ends(tree.edges.size(), Transit{now, now, now});
    crossing.cross(tree, subject(kMlid), edges);
    if (!tree.timed.empty()) {
      crossing.clocks().reserve(now, kWords * 4, tree, ends);
    }
    std::vector<Instant> arrived;
    for (std::size_t i = 0; i < edges.size(); ++i) {
      const Hop& hop = tree.edges[i];
      const EdgeCrossing& edge = edges[i];
      for (std::uint32_t copy = 0; copy < edge.arrived + edge.damaged + edge.lost; ++copy) {
        seen.push_back({hop.egress, copy < edge.arrived ? hop.ingress : kNoPort});
      }
      if (edge.is_crossed()) {
        const std::uint64_t packets = edge.arrived + edge.damaged;
        count_crossing(plain.own(hop.egress), plain.own(hop.ingress), plain.own_details(), hop,
                       ServiceLevel{}, true, packets, kWords * packets);
      }
      count_drop(plain.own(hop.ingress), plain.own_details(), hop.ingress, PathEnd::Damaged,
                 edge.damaged);
      count_drop(plain.own(hop.egress), plain.own_details(), hop.egress, PathEnd::PortInactive,
                 edge.lost);
      if (hop.ingress == h2) {
        arrived.insert(arrived.end(), edge.arrived, ends[i].arrives + edge.held_back);
      }
    }
    for (const PortIndex port : tree.dropped_at) {
      count_drop(plain.own(port), plain.own_details(), port, PathEnd::PortInactive, 1);
    }
    return arrived;
  }

  struct alignas(64) Line {
    std::byte bytes[64]{};
  };
  [[nodiscard]] static std::vector<Line> lines(std::size_t bytes) {
    return std::vector<Line>((bytes + sizeof(Line) - 1) / sizeof(Line));
  }

  RunningFabric fabric{*generate_star(2)};
  PortIndex h1{fabric.port("h1", 1)};
  PortIndex h2{fabric.port("h2", 1)};
  bool unroutable{};
  std::vector<Line> clock_memory =
      lines(DepartureClocks::bytes_needed(fabric.builder.ports().size()));
  std::vector<Line> fault_memory = lines(FaultCounters::bytes_needed());
  std::vector<Line> page_memory = lines(CounterPage::bytes_needed({64, 256}));
  DepartureClocks clocks =
      DepartureClocks::open(std::as_writable_bytes(std::span<Line>{clock_memory}));
  FaultCounters faults = FaultCounters::open(std::as_writable_bytes(std::span{fault_memory}));
  CounterPage page =
      CounterPage::format(std::as_writable_bytes(std::span<Line>{page_memory}), {64, 256});
  LinkCrossing crossing{clocks, faults};
  LinkRules rules{fabric.builder};
  PlainCounters plain;
  std::vector<Hop> seen;  // by captures of all ports
};

constexpr Counted kThrough{.sent = 1, .sent_words = kWords};
constexpr Counted kIn{.received = 1};

TEST_P(Crossing, CountsAtBothPortsOfEachCable) {
  EXPECT_EQ(send(), std::vector{kStart});
  EXPECT_EQ(at("h1", 1), kThrough);
  EXPECT_EQ(at("s1", 1), kIn);
  EXPECT_EQ(at("s1", 2), kThrough);
  EXPECT_EQ(at("h2", 1), kIn);
}

TEST_P(Crossing, LosesByARuleWhatItsLinkDiscardsThen) {
  add_rule("drop", "s1", 2);
  EXPECT_TRUE(send().empty());
  EXPECT_EQ(at("s1", 1), kIn);
  EXPECT_EQ(at("s1", 2), Counted{.discards = 1});
  EXPECT_EQ(at("h2", 1), Counted{});
  EXPECT_EQ(faults.read(0).hit, 1U);
}

TEST_P(Crossing, DamagesWhatItsReceiverDiscardsThen) {
  add_rule("corrupt", "s1", 2);
  EXPECT_TRUE(send().empty());
  EXPECT_EQ(at("s1", 2), kThrough);
  EXPECT_EQ(at("h2", 1), (Counted{.received = 1, .receive_errors = 1}));
}

TEST_P(Crossing, MakesADuplicate) {
  add_rule("duplicate", "s1", 2);
  EXPECT_EQ(send().size(), 2U);
  EXPECT_EQ(at("h2", 1).received, 2U);
}

TEST_P(Crossing, HoldsBackByARule) {
  add_rule("reorder by=300us", "s1", 2);
  EXPECT_EQ(send(), std::vector{kStart + Duration::microseconds(300)});
}

TEST_P(Crossing, HitsEveryThirdWhoeverSends) {
  add_rule("drop every=3", "s1", 2);
  EXPECT_EQ(send(Way::WholePath).size(), 1U);
  EXPECT_EQ(send(Way::CableByCable).size(), 1U);
  EXPECT_TRUE(send().empty());
  EXPECT_EQ(faults.read(0).matched, 3U);
}

TEST_P(Crossing, TakesTheTimeOfTheSlowestLinkAndAllDelays) {
  fabric.builder.set_link(h1, 8, Duration::milliseconds(1));  // a microsecond per byte
  fabric.builder.set_link(h2, 4, Duration::milliseconds(3));
  EXPECT_EQ(send(), std::vector{kStart + Duration::microseconds(2 * 4 * kWords) +
                                Duration::milliseconds(4)});
}

TEST_P(Crossing, WaitsForWhateverElseTheLinkCarries) {
  fabric.builder.set_link(h1, 8, {});
  constexpr Duration kOne = Duration::microseconds(4 * kWords);
  int sent = 0;
  for (const Way other : {Way::WholePath, Way::CableByCable, Way::EdgeByEdge}) {
    EXPECT_EQ(send(other), std::vector{kStart + kOne * ++sent});
  }
  EXPECT_EQ(send(), std::vector{kStart + kOne * ++sent});
}

TEST_P(Crossing, IsShownToCapturesAsFarAsItComes) {
  EXPECT_EQ(send().size(), 1U);
  const std::vector<Hop> whole{
      {h1,               fabric.port("s1", 1)},
      {fabric.port("s1", 2),               h2}
  };
  EXPECT_EQ(seen, whole);
  seen.clear();
  add_rule("corrupt", "s1", 2);
  EXPECT_TRUE(send().empty());
  EXPECT_EQ(seen, (std::vector<Hop>{
                      whole[0], {whole[1].egress, kNoPort}
  }));
  seen.clear();
  add_rule("drop", "h1", 1);
  EXPECT_TRUE(send().empty());
  EXPECT_EQ(seen, (std::vector<Hop>{
                      {h1, kNoPort}
  }));
}

TEST_P(Crossing, EndsAtACutCable) {
  fabric.builder.set_link_state(h2, PortState::Down);
  EXPECT_TRUE(send().empty());
  EXPECT_EQ(at("h1", 1), kThrough);
  EXPECT_EQ(at("s1", 1), kIn);
  EXPECT_EQ(at("s1", 2), Counted{.discards = 1});
}

INSTANTIATE_TEST_SUITE_P(Links, Crossing,
                         ::testing::Values(Way::WholePath, Way::CableByCable, Way::EdgeByEdge));

class CrossingByLid : public Crossing {};

TEST_P(CrossingByLid, CountsAsARelayErrorWhereNoTableKnowsTheLid) {
  unroutable = true;
  EXPECT_TRUE(send().empty());
  EXPECT_EQ(at("h1", 1), kThrough);
  EXPECT_EQ(at("s1", 1), (Counted{.received = 1, .relay_errors = 1}));
  EXPECT_EQ(at("s1", 2), Counted{});
}

INSTANTIATE_TEST_SUITE_P(Links, CrossingByLid,
                         ::testing::Values(Way::WholePath, Way::CableByCable));

class CableClocks : public Crossing {
 protected:
  /// How long a packet waits for h1's link.
  std::optional<Duration> wait(DepartureClock* lane, std::uint64_t bytes = 1000) {
    const auto transit = clocks.reserve_cable(kStart, bytes, h1, {8}, lane);
    return transit ? std::optional{transit->starts - kStart} : std::nullopt;
  }

  DepartureClock vl15;
};

TEST_F(CableClocks, LetSmpsPassWhatWaitsOnOtherLanes) {  // IBTA vol 1 §7.6.9
  EXPECT_EQ(wait(nullptr), Duration{});
  EXPECT_EQ(wait(&vl15), Duration{});
  EXPECT_EQ(wait(&vl15), Duration::milliseconds(1));
  EXPECT_EQ(wait(nullptr), Duration::milliseconds(3));
}

TEST_F(CableClocks, RefuseWhatWouldWaitForLongerThanALifetime) {  // IBTA vol 1 §18.2.5.4
  EXPECT_TRUE(wait(nullptr, 1'073'000));
  EXPECT_TRUE(wait(nullptr, 1'000));
  EXPECT_FALSE(wait(nullptr));
  EXPECT_TRUE(wait(&vl15));
}

}  // namespace
}  // namespace weft::fabric
