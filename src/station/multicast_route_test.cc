#include "station/multicast_route.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "fabric/testing/running_fabric.h"

namespace weft::station {
namespace {

using fabric::testing::RunningFabric;

constexpr Lid kMlid{0xC123};

/// h1 of a star of four sends to a group that h2 and h3 are in.
class FanOut : public ::testing::Test {
 protected:
  FanOut() {
    for (const char* const host : {"h2", "h3"}) {
      EXPECT_TRUE(fabric_.manager.join(kMlid, fabric_.port(host, 1)));
    }
    fabric_.publish();
    route_.tree = resolve_multicast(fabric_.view(), fabric_.port("h1", 1), kMlid);
  }
  [[nodiscard]] ProcessAddress process(const char* host, std::uint32_t slot = 1) const {
    return {.node = fabric_.node(host).value(), .slot = slot};
  }
  void find_copies(std::span<const ProcessAddress> members) {
    route_.find_copies(fabric_.view(), members, process("h1").node);
  }
  [[nodiscard]] std::uint32_t edge_to(const char* host) const {
    const auto edge =
        std::ranges::find(route_.tree.edges, fabric_.port(host, 1), &fabric::Hop::ingress);
    return static_cast<std::uint32_t>(edge - route_.tree.edges.begin());
  }
  /// As if each edge took time, and met rules of faults.
  void take_time() {
    const std::size_t edges = route_.tree.edges.size();
    route_.tree.timed.resize(edges);
    route_.tree.timed[edge_to("h2")].parent = route_.tree.timed[edge_to("h3")].parent = 0;
    route_.ends.resize(edges);
    for (std::size_t i = 0; i < edges; ++i) {
      route_.ends[i].arrives = Instant{Duration::microseconds(10 + static_cast<std::int64_t>(i))};
    }
  }
  void meet_faults() {
    route_.tree.faults.resize(1);
    route_.crossings.resize(route_.tree.edges.size());
    for (fabric::EdgeCrossing& crossing : route_.crossings) {
      crossing.arrived = 1;
    }
  }

  RunningFabric fabric_{*fabric::generate_star(4)};
  MulticastRoute route_;
};

TEST_F(FanOut, HasOneCopyForEachProcessThatTheTreeReaches) {
  const std::array members{process("h2", 1), process("h2", 2), process("h3"), process("h4"),
                           process("h1")};
  find_copies(members);
  ASSERT_EQ(route_.copies.size(), 4U) << "h4 is not on the tree";
  EXPECT_EQ(route_.copies[0].edges, std::vector{edge_to("h2")});
  EXPECT_EQ(route_.copies[1].member, process("h2", 2));
  EXPECT_EQ(route_.copies[2].edges, std::vector{edge_to("h3")});
  EXPECT_TRUE(route_.copies[3].edges.empty()) << "the sender's own node needs no edge";
}

TEST_F(FanOut, ArrivesAtOnceWhereNothingTakesTime) {
  const std::array members{process("h2")};
  find_copies(members);
  const auto delivery = route_.delivery_of(route_.copies.front());
  ASSERT_TRUE(delivery);
  EXPECT_EQ(delivery->transit, nullptr);
  EXPECT_EQ(delivery->copies, 1U);
}

TEST_F(FanOut, ArrivesByTheFirstOfTheEdgesToANode) {
  take_time();
  MulticastCopy copy{
      .member = process("h2"), .edges = {edge_to("h3"), edge_to("h2")}
  };
  const std::uint32_t first = std::min(edge_to("h2"), edge_to("h3"));
  const std::uint32_t other = std::max(edge_to("h2"), edge_to("h3"));
  EXPECT_EQ(route_.delivery_of(copy)->transit, &route_.ends[first]);
  meet_faults();
  route_.crossings[first] = {.arrived = 0, .lost = 1, .held_back = {}};
  route_.crossings[other] = {.arrived = 2, .held_back = Duration::microseconds(7)};
  const auto delivery = route_.delivery_of(copy);
  ASSERT_TRUE(delivery);
  EXPECT_EQ(delivery->transit, &route_.ends[other]) << "the first one lost it";
  EXPECT_EQ(delivery->copies, 2U);
  EXPECT_EQ(delivery->held_back, Duration::microseconds(7));
  route_.crossings[other].arrived = 0;
  EXPECT_FALSE(route_.delivery_of(copy)) << "all lost it";
}

TEST_F(FanOut, CountsAndCapturesThePartThatWasCrossed) {
  take_time();
  meet_faults();
  const std::uint32_t lost = edge_to("h3");
  route_.crossings[lost] = {.arrived = 0, .lost = 1, .held_back = {}};
  const fabric::MulticastTree part = route_.crossed_part();
  EXPECT_EQ(part.edges.size(), route_.tree.edges.size() - 1);
  EXPECT_EQ(part.dropped_at, std::vector{route_.tree.edges[lost].egress});
  const auto captured = route_.captured_hops();
  ASSERT_EQ(captured.size(), route_.tree.edges.size()) << "it was seen to leave by each";
  EXPECT_EQ(captured[lost].ingress, fabric::kNoPort);
  EXPECT_EQ(captured[edge_to("h2")].ingress, fabric_.port("h2", 1));
  const MulticastRoute::Shape shape = route_.shape();
  EXPECT_FALSE(shape[2 * lost]);
  EXPECT_TRUE(shape[2 * lost + 1]);
  route_.crossings[lost].lost = 0;
  EXPECT_EQ(route_.captured_hops().size(), route_.tree.edges.size() - 1) << "lost before";
}

TEST_F(FanOut, KnowsThePathToAnEdge) {
  take_time();
  const fabric::Path path = route_.path_to(edge_to("h3"));
  ASSERT_EQ(path.hops.size(), 2U);
  EXPECT_EQ(path.hops.front(), route_.tree.edges.front());
  EXPECT_EQ(path.destination, fabric_.port("h3", 1));
  EXPECT_EQ(path.source, fabric_.port("h1", 1));
}

}  // namespace
}  // namespace weft::station
