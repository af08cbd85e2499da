#include "ulp/ipoib/path_table.h"

#include <gtest/gtest.h>

namespace weft::ipoib {
namespace {

Instant at(std::int64_t seconds) { return Instant{Duration::seconds(seconds)}; }
Gid gid_of(std::uint64_t number) { return Gid{kDefaultGidPrefix, Guid{number}}; }
wire::IpoibHardwareAddress neighbor_of(std::uint64_t number) {
  return {.qpn = Qpn{static_cast<std::uint32_t>(number)}, .gid = gid_of(number)};
}
wire::PathRecord path_to(std::uint32_t lid) { return {.dlid = Lid{lid}}; }

TEST(IpoibPaths, HoldPacketsUntilSaHasAnswered) {  // R-IPOIB-11
  PathTable paths;
  paths.send(neighbor_of(1), {std::byte{1}}, {});
  paths.send(neighbor_of(1), {std::byte{2}}, {});
  EXPECT_FALSE(paths.poll_send());
  const auto query = paths.poll_query();
  ASSERT_TRUE(query);
  EXPECT_EQ(query->dgid, gid_of(1));
  EXPECT_FALSE(paths.poll_query());  // one question for both
  paths.answered(query->id, path_to(7), {});
  for (const std::byte expected : {std::byte{1}, std::byte{2}}) {
    const auto sent = paths.poll_send();
    ASSERT_TRUE(sent);
    EXPECT_EQ(sent->packet, Packet{expected});
    EXPECT_EQ(sent->path.dlid, Lid{7});
    EXPECT_EQ(sent->neighbor, neighbor_of(1));
  }
  paths.send(neighbor_of(1), {std::byte{3}}, {});
  EXPECT_TRUE(paths.poll_send());
  EXPECT_FALSE(paths.poll_query());
}

TEST(IpoibPaths, DropWhatWaitsWhenThereIsNoPathAndAskAgainLater) {  // R-IPOIB-11
  PathTable paths;
  paths.send(neighbor_of(1), {}, at(0));
  paths.failed(paths.poll_query()->id, at(0));
  EXPECT_EQ(paths.counters().dropped, 1U);
  paths.send(neighbor_of(1), {}, at(0));
  EXPECT_FALSE(paths.poll_query());
  EXPECT_EQ(paths.counters().dropped, 2U);
  EXPECT_EQ(paths.deadline(), at(1));
  paths.handle_timeout(at(1));
  paths.send(neighbor_of(1), {}, at(1));
  EXPECT_TRUE(paths.poll_query());
}

TEST(IpoibPaths, AreAskedForAgainAfterAChangeAndUsedMeanwhile) {  // R-IPOIB-12
  PathTable paths;
  paths.send(neighbor_of(1), {}, {});
  const auto first = paths.poll_query();
  paths.answered(first->id, path_to(7), {});
  ASSERT_TRUE(paths.poll_send());
  paths.invalidate_all({});
  const auto second = paths.poll_query();
  ASSERT_TRUE(second);
  paths.send(neighbor_of(1), {}, {});
  EXPECT_EQ(paths.poll_send()->path.dlid, Lid{7});
  paths.answered(first->id, path_to(8), {});  // an earlier question's
  EXPECT_EQ(paths.state_of(gid_of(1)), PathState::Refreshing);
  paths.answered(second->id, path_to(9), {});
  EXPECT_EQ(paths.find(gid_of(1))->dlid, Lid{9});
}

TEST(IpoibPaths, ThatAreBrokenAreNotUsed) {  // R-IPOIB-12
  PathTable paths;
  paths.send(neighbor_of(1), {}, {});
  paths.answered(paths.poll_query()->id, path_to(7), {});
  ASSERT_TRUE(paths.poll_send());
  paths.broken(gid_of(1), {});
  EXPECT_FALSE(paths.find(gid_of(1)));
  paths.send(neighbor_of(1), {}, {});
  EXPECT_FALSE(paths.poll_send());
  paths.answered(paths.poll_query()->id, path_to(8), {});
  EXPECT_EQ(paths.poll_send()->path.dlid, Lid{8});
}

TEST(IpoibPaths, AreBounded) {  // R-IPOIB-11
  PathTable paths{
      {.paths = 2, .packets_of_path = 3}
  };
  for (int i = 0; i < 5; ++i) {
    paths.send(neighbor_of(1), {}, at(1));
  }
  EXPECT_EQ(paths.counters().dropped, 2U);
  paths.send(neighbor_of(2), {}, at(2));
  paths.send(neighbor_of(3), {}, at(3));  // the oldest goes, with what waits
  EXPECT_EQ(paths.size(), 2U);
  EXPECT_FALSE(paths.state_of(gid_of(1)));
  EXPECT_EQ(paths.counters().dropped, 5U);
}

TEST(IpoibPaths, AreForgottenWhenUnusedOrWithoutALink) {
  PathTable paths;
  paths.send(neighbor_of(1), {}, at(0));
  paths.answered(paths.poll_query()->id, path_to(7), at(0));
  paths.handle_timeout(at(599));
  EXPECT_EQ(paths.size(), 1U);
  paths.handle_timeout(at(600));
  EXPECT_EQ(paths.size(), 0U);
  paths.send(neighbor_of(1), {}, at(601));
  paths.clear();
  EXPECT_FALSE(paths.poll_query());
  EXPECT_EQ(paths.deadline(), Instant::never());
}

}  // namespace
}  // namespace weft::ipoib
