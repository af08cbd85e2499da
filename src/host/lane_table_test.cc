#include "host/lane_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <utility>
#include <vector>

#include "host/testing/fake_process.h"
#include "os/shared_memory.h"

namespace weft::host {
namespace {

constexpr uabi::ProcessAddress kPeer{.node = 3, .slot = 1};
constexpr Qpn kOwn{0x4001};
constexpr Qpn kOther{0x4002};

class Lanes : public ::testing::Test {
 protected:
  Lanes() {
    lanes_.open(daemon_.self(), std::move(*PairMemory::reserve()));
    first_ = lanes_.count();
  }
  [[nodiscard]] static std::vector<os::UniqueFd> shared_memory() {
    std::vector<os::UniqueFd> files;
    files.push_back(std::move(*os::create_shared_memory("lanes", kPairMemoryBytes)));
    files.push_back(std::move(*os::create_shared_memory("attention", kAttentionPageBytes)));
    return files;
  }
  bool join(const uabi::Lane& message = {.peer = kPeer, .side = 0}) {
    return lanes_.join(message, shared_memory(), [this](Lane& lane) { opened_.insert(&lane); });
  }

  testing::FakeDaemon daemon_;
  FabricMap map_;
  TapSet taps_;
  LiveLinks links_;
  std::atomic<std::uint32_t> waiting_{0};
  Placements placements_;
  LaneTable lanes_{map_, taps_, links_, waiting_, daemon_, placements_};
  std::size_t first_{};
  std::set<Lane*> opened_;
};

TEST_F(Lanes, ToThisProcessItselfAreOpenAtOnce) {
  EXPECT_EQ(lanes_.lane_to(daemon_.self(), kOwn, kOther).state(), LaneState::Open);
  EXPECT_TRUE(daemon_.take<uabi::OpenLane>().empty());
}

TEST_F(Lanes, AreAskedForOnceAPeer) {
  const Lane& lane = lanes_.lane_to(kPeer, kOwn, kOther);
  EXPECT_EQ(lane.state(), LaneState::Opening);
  EXPECT_EQ(&lanes_.lane_to(kPeer, kOwn, kOther), &lane);
  EXPECT_EQ(lanes_.count(), first_ + kLanesPerPair);
  const auto asked = daemon_.take<uabi::OpenLane>();
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(asked[0].peer, kPeer);
}

TEST_F(Lanes, OfAPairOpenTogether) {
  const Lane& lane = lanes_.lane_to(kPeer, kOwn, kOther);
  EXPECT_TRUE(join());
  EXPECT_EQ(opened_.size(), kLanesPerPair);
  EXPECT_EQ(lane.state(), LaneState::Open);
  EXPECT_FALSE(join()) << "they are open";
}

TEST_F(Lanes, OpenForAPeerThatWasNotAskedFor) {
  EXPECT_TRUE(join());
  EXPECT_EQ(lanes_.count(), first_ + kLanesPerPair);
}

TEST_F(Lanes, AreNotJoinedWithWhatIsNoLane) {
  EXPECT_FALSE(join({.peer = kPeer, .side = 2}));
  EXPECT_FALSE(join({.peer = daemon_.self(), .side = 0}));
  std::vector<os::UniqueFd> swapped = shared_memory();
  std::swap(swapped[0], swapped[1]);
  EXPECT_FALSE(lanes_.join({.peer = kPeer, .side = 0}, swapped, [](Lane&) {}));
  EXPECT_TRUE(opened_.empty());
}

TEST_F(Lanes, AreClosedTogetherWhenThePeerIsGone) {
  EXPECT_TRUE(join());
  std::set<Lane*> closed;
  lanes_.part(kPeer, [&](Lane& lane) {
    closed.insert(&lane);
    lane.close(lanes_.null_lane());
  });
  EXPECT_EQ(closed, opened_);
  EXPECT_EQ(lanes_.lane_to(kPeer, kOwn, kOther).state(), LaneState::Dead);
}

TEST_F(Lanes, ToThisProcessAreNeverParted) {
  lanes_.part(daemon_.self(), [](Lane&) { FAIL(); });
}

TEST_F(Lanes, LeadNowhereBeyondTheirLimit) {
  for (std::uint32_t slot = 1; lanes_.count() + kLanesPerPair <= kMaxLanes; ++slot) {
    EXPECT_NE(&lanes_.lane_to({.node = 9, .slot = slot}, kOwn, kOther), &lanes_.null_lane());
  }
  EXPECT_EQ(&lanes_.lane_to(kPeer, kOwn, kOther), &lanes_.null_lane());
  EXPECT_EQ(lanes_.null_lane().state(), LaneState::Dead);
}

TEST_F(Lanes, AreNotMadeAnyMoreWhenTheDaemonHasEnded) {
  EXPECT_TRUE(join());
  const auto peers = lanes_.end();
  EXPECT_EQ(std::ranges::count(peers, kPeer), 1);
  EXPECT_EQ(&lanes_.lane_to({.node = 8, .slot = 1}, kOwn, kOther), &lanes_.null_lane());
  EXPECT_TRUE(daemon_.take<uabi::OpenLane>().empty());
}

TEST_F(Lanes, AreNobodyElsesWhileTheirRingsAreHeld) {
  EXPECT_TRUE(join());
  const std::size_t held = lanes_.hold_rings();
  EXPECT_EQ(held, lanes_.count());
  for (std::size_t i = 0; i < held; ++i) {
    EXPECT_FALSE(lanes_[i]->in(hca::Flow::Request).owner.try_lock());
  }
  lanes_.release_rings(held);
  EXPECT_TRUE(lanes_[0]->in(hca::Flow::Request).owner.try_lock());
  lanes_[0]->in(hca::Flow::Request).owner.unlock();
}

}  // namespace
}  // namespace weft::host
