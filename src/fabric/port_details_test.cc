// PortXmitDiscardDetails, PortRcvErrorDetails and the counters by service level (IBTA vol 1
// §16.1.4).

#include "fabric/port_details.h"

#include <gtest/gtest.h>

#include <array>
#include <span>
#include <vector>

#include "fabric/counters.h"
#include "fabric/testing/running_fabric.h"

namespace weft::fabric {
namespace {

using testing::RunningFabric;

/// A star of three hosts, and the counter page of h1's process.
class Details : public ::testing::Test {
 protected:
  [[nodiscard]] PathEntry& open(const Path& path, ServiceLevel sl = {}) {
    return page_.open(path, sl);
  }
  [[nodiscard]] PathEntry& open(const MulticastTree& tree, ServiceLevel sl = {}) {
    return page_.open(tree, sl);
  }
  [[nodiscard]] PortIndex port(const char* node, int number) const {
    return fabric.port(node, number);
  }
  [[nodiscard]] OwnedCounterPage owned() {
    return {*CounterPageView::open(memory()), fabric.node("h1")};
  }
  [[nodiscard]] CounterSum read() {
    const std::array live = {owned()};
    return ledger.read(fabric.view(), live);
  }
  [[nodiscard]] PortDetails details(const char* node, int number) {
    return ledger.details(read(), port(node, number));
  }

  RunningFabric fabric{*generate_star(3)};
  CounterLedger ledger{fabric.view().ports().size()};

 private:
  static constexpr CounterPageLimits kLimits{.entries = 64, .hops = 512};
  struct alignas(64) Line {
    std::array<std::byte, 64> bytes;
  };
  [[nodiscard]] MutableByteSpan memory() { return std::as_writable_bytes(std::span{lines_}); }

  std::vector<Line> lines_{CounterPage::bytes_needed(kLimits) / sizeof(Line) + 1};
  CounterPage page_{CounterPage::format(memory(), kLimits)};
};

TEST_F(Details, DataCountsByTheServiceLevelOfItsPackets) {
  const Path path = resolve(fabric.view(), port("h1", 1), fabric.lid("h2"));
  open(path).count(1, 100);
  open(path, ServiceLevel{3}).count(2, 20);
  open(path, ServiceLevel{15}).count(1, 7);
  open(resolve_multicast(fabric.view(), port("h1", 1), kBroadcastMlid), ServiceLevel{3})
      .count(1, 4);
  PortDetails::BySl sent{};
  sent[0] = 100;
  sent[3] = 24;
  sent[15] = 7;
  EXPECT_EQ(details("h1", 1).xmit_data, sent);
  EXPECT_EQ(details("s1", 1).rcv_data, sent);
  EXPECT_EQ(details("s1", 2).xmit_data, sent);
  EXPECT_EQ(details("h2", 1).rcv_data, sent);
  EXPECT_EQ(details("h2", 1).xmit_data, PortDetails::BySl{});
  EXPECT_EQ(details("h3", 1).rcv_data[3], 4U);
}

TEST_F(Details, ReasonsOfDropsAddUpToTheirCounter) {
  const Path path = resolve(fabric.view(), port("h1", 1), fabric.lid("h2"));
  PathEntry& entry = open(path);
  entry.count(10, 100);
  entry.count_discarded(4, 40);
  entry.count_damaged(1);
  open(discarded_at(path, 1)).count(3, 30);
  open(damaged_at(path, 1)).count(5, 50);
  Path circle = discarded_at(path, 1);
  circle.end = PathEnd::LifetimeLimit;
  open(circle).count(2, 20);
  Path stranger = damaged_at(path, 1);
  stranger.end = PathEnd::Malformed;
  open(stranger).count(6, 60);
  open(resolve(fabric.view(), port("h1", 1), Lid{99})).count(7, 70);
  Path back = resolve(fabric.view(), port("h1", 1), Lid{99});
  back.end = PathEnd::Looping;
  open(back).count(8, 80);

  const CounterSum sum = read();
  EXPECT_EQ(sum.refused_entries, 0U);
  const PortDetails out = details("s1", 2);
  EXPECT_EQ(out.of(PathEnd::PortInactive), 3U);
  EXPECT_EQ(out.of(PathEnd::LifetimeLimit), 2U);
  EXPECT_EQ(out.of(PathEnd::HeadOfQueueLimit), 4U);
  EXPECT_EQ(sum.ports[port("s1", 2).value()].xmit_discards, 9U);
  const PortDetails in = details("h2", 1);
  EXPECT_EQ(in.of(PathEnd::Damaged), 6U);
  EXPECT_EQ(in.of(PathEnd::Malformed), 6U);
  EXPECT_EQ(sum.ports[port("h2", 1).value()].rcv_errors, 12U);
  const PortDetails relay = details("s1", 1);
  EXPECT_EQ(relay.of(PathEnd::DlidMapping), 7U);
  EXPECT_EQ(relay.of(PathEnd::Looping), 8U);
  EXPECT_EQ(sum.ports[port("s1", 1).value()].rcv_switch_relay_errors, 15U);
}

TEST_F(Details, OfALostBranchOfATreeAreDiscardsOfAnInactivePort) {
  fabric.builder.set_link_state(port("h3", 1), PortState::Down);
  fabric.publish();
  open(resolve_multicast(fabric.view(), port("h1", 1), kBroadcastMlid)).count(2, 20);
  EXPECT_EQ(details("s1", 3).of(PathEnd::PortInactive), 2U);
}

TEST_F(Details, ASetOfTheSumsLeavesThemAndTheOtherWayRound) {
  const Path path = resolve(fabric.view(), port("h1", 1), fabric.lid("h2"));
  PathEntry& low = open(path);
  PathEntry& high = open(path, ServiceLevel{2});
  low.count(1, 100);
  high.count(1, 50);
  const PortIndex h1 = port("h1", 1);
  ledger.set(h1, read().ports[h1.value()], {});
  EXPECT_EQ(details("h1", 1).xmit_data[0], 100U);
  EXPECT_EQ(details("h1", 1).xmit_data[2], 50U);
  ledger.set_details(h1, details("h1", 1), {});
  EXPECT_EQ(details("h1", 1), PortDetails{});
  low.count(1, 5);
  high.count(1, 6);
  EXPECT_EQ(details("h1", 1).xmit_data[0], 5U);
  EXPECT_EQ(details("h1", 1).xmit_data[2], 6U);
  EXPECT_EQ(read().ports[h1.value()].xmit_data, 11U);
}

TEST_F(Details, OfTheDeadAreKept) {
  const Path path = resolve(fabric.view(), port("h1", 1), fabric.lid("h2"));
  open(path, ServiceLevel{2}).count(1, 50);
  open(discarded_at(path, 0)).count(3, 30);
  ledger.fold(fabric.view(), owned());
  const CounterSum sum = ledger.read(fabric.view(), {});
  EXPECT_EQ(ledger.details(sum, port("h1", 1)).xmit_data[2], 50U);
  EXPECT_EQ(ledger.details(sum, port("h1", 1)).of(PathEnd::PortInactive), 3U);
}

}  // namespace
}  // namespace weft::fabric
