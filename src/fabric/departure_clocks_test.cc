#include "fabric/departure_clocks.h"

#include <gtest/gtest.h>

#include <memory>
#include <new>

#include "fabric/testing/running_fabric.h"

namespace weft::fabric {
namespace {

using testing::RunningFabric;

Instant at(std::int64_t us) { return Instant{Duration::microseconds(us)}; }

/// star:4; links have 8 Gb/s (1000 bytes per us) and 10 us, but the last has 4 Gb/s.
Topology star() {
  Topology topology = *generate_star(4);
  EXPECT_TRUE(apply({.rate_gbps = 8, .delay = Duration::microseconds(10)}, topology));
  topology.links[3].rate_gbps = 4;
  return topology;
}

class Clocks : public ::testing::Test {
 protected:
  Path path(std::string_view from, std::string_view to) {
    return resolve(fabric.view(), fabric.port(from, 1), fabric.lid(to));
  }
  Transit send(std::int64_t us, std::uint64_t bytes, const Path& along) {
    return clocks.reserve(at(us), bytes, along);
  }

  RunningFabric fabric{star()};
  struct alignas(64) Line {
    std::byte bytes[64]{};
  };
  std::vector<Line> memory = std::vector<Line>(DepartureClocks::bytes_needed(9) / sizeof(Line));
  DepartureClocks clocks = DepartureClocks::open(std::as_writable_bytes(std::span<Line>{memory}));
};

TEST_F(Clocks, APacketAloneTakesTheSlowestLinksTimeAndAllDelays) {
  EXPECT_EQ(send(0, 1000, path("h1", "h2")).arrives, at(1 + 20));
  EXPECT_EQ(send(100, 1000, path("h1", "h4")).departs, at(102));
  EXPECT_EQ(send(200, 1000, path("h1", "h4")).arrives, at(202 + 20));
}

TEST_F(Clocks, FlowsThatShareALinkShareItsRate) {  // incast
  for (int i = 0; i < 10; ++i) {
    const char* const from = i % 2 == 0 ? "h1" : "h2";
    EXPECT_EQ(send(0, 1000, path(from, "h3")).departs, at(i + 1));
  }
}

TEST_F(Clocks, FlowsThatShareNoLinkDoNotWaitForEachOther) {
  EXPECT_EQ(send(0, 100'000, path("h1", "h3")).departs, at(100));
  EXPECT_EQ(send(0, 1000, path("h2", "h1")).departs, at(1));
  EXPECT_EQ(send(0, 1000, path("h3", "h2")).departs, at(1));
}

TEST_F(Clocks, TheTwoDirectionsOfALinkAreApart) {
  EXPECT_EQ(send(0, 100'000, path("h1", "h2")).departs, at(100));
  EXPECT_EQ(send(0, 1000, path("h2", "h1")).departs, at(1));
}

TEST_F(Clocks, ALinkDoesNotStandIdleForAPacketThatWaitsElsewhere) {
  EXPECT_EQ(send(0, 100'000, path("h1", "h4")).departs, at(200));
  EXPECT_EQ(send(0, 1000, path("h1", "h3")).departs, at(101)) << "h1's own link is done at 100";
  EXPECT_EQ(send(0, 1000, path("h2", "h3")).departs, at(2)) << "h3's link has one packet to carry";
}

TEST_F(Clocks, AreFreeAgainWhenTheTimeIsOver) {
  EXPECT_EQ(send(0, 1000, path("h1", "h2")).departs, at(1));
  EXPECT_EQ(send(50, 1000, path("h1", "h2")).starts, at(50));
}

TEST_F(Clocks, WithoutClocksEveryLinkIsFree) {
  DepartureClocks none;
  EXPECT_EQ(none.reserve(at(0), 1000, path("h1", "h2")).departs, at(1));
  EXPECT_EQ(none.reserve(at(0), 1000, path("h1", "h2")).departs, at(1));
}

TEST_F(Clocks, AMulticastPacketCrossesEachLinkOnce) {
  const MulticastTree tree = resolve_multicast(fabric.view(), fabric.port("h1", 1), kBroadcastMlid);
  ASSERT_EQ(tree.edges.size(), 4U);
  ASSERT_EQ(tree.timed.size(), 4U);
  std::vector<Transit> ends;
  clocks.reserve(at(0), 1000, tree, ends);
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const Hop& hop = tree.edges[i];
    if (hop.egress == fabric.port("h1", 1)) {
      EXPECT_EQ(ends[i].arrives, at(1 + 10));
    } else if (hop.ingress == fabric.port("h4", 1)) {
      EXPECT_EQ(ends[i].arrives, at(2 + 20));
    } else {
      EXPECT_EQ(ends[i].arrives, at(1 + 20));
    }
  }
  EXPECT_EQ(send(0, 1000, path("h1", "h2")).departs, at(2)) << "once, though three got it";
}

TEST(MulticastTiming, IsNotAskedForWhereNoLinkTakesTime) {
  const RunningFabric fabric{*generate_star(3)};
  EXPECT_TRUE(resolve_multicast(fabric.view(), fabric.port("h1", 1), kBroadcastMlid).timed.empty());
  EXPECT_FALSE(resolve(fabric.view(), fabric.port("h1", 1), fabric.lid("h2")).is_timed());
}

}  // namespace
}  // namespace weft::fabric
