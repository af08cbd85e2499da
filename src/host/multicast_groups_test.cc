#include "host/multicast_groups.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "host/testing/fake_process.h"

namespace weft::host {
namespace {

constexpr Lid kMlid{0xC005};
const Gid kMgid{};
constexpr fabric::PortIndex kPort{3};
constexpr fabric::PortIndex kOtherPort{4};

class Groups : public ::testing::Test {
 protected:
  std::optional<std::uint64_t> join(fabric::PortIndex port = kPort) {
    return groups_.join(memberships_, kMgid, kMlid, [port] { return port; });
  }

  testing::FakeDaemon daemon_;
  MulticastGroups groups_{daemon_, std::chrono::milliseconds{5'000}};
  std::vector<Membership> memberships_;
};

TEST_F(Groups, AreJoinedOnceAQp) {
  EXPECT_TRUE(join());
  EXPECT_FALSE(join());
  const auto asked = daemon_.take<uabi::JoinGroup>();
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(asked[0].port, kPort.value());
  EXPECT_EQ(asked[0].mlid, kMlid);
}

TEST_F(Groups, AreNotJoinedWithoutAPort) {
  EXPECT_FALSE(groups_.join(memberships_, kMgid, kMlid, [] { return std::nullopt; }));
  EXPECT_TRUE(memberships_.empty());
}

TEST_F(Groups, AreLeftByThePortThatJoinedThem) {
  ASSERT_TRUE(join());
  groups_.leave(memberships_, kMgid, kMlid);
  const auto left = daemon_.take<uabi::LeaveGroup>();
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].port, kPort.value());
  groups_.leave(memberships_, kMgid, kMlid);
  EXPECT_TRUE(daemon_.take<uabi::LeaveGroup>().empty());
}

TEST_F(Groups, MoveToTheQpsNewPort) {
  ASSERT_TRUE(join());
  static_cast<void>(daemon_.take<uabi::JoinGroup>());
  groups_.move(memberships_, [] { return kPort; });
  EXPECT_TRUE(daemon_.take<uabi::JoinGroup>().empty());
  groups_.move(memberships_, [] { return kOtherPort; });
  ASSERT_EQ(memberships_.size(), 1U);
  EXPECT_EQ(memberships_[0].port, kOtherPort);
  const auto joined = daemon_.take<uabi::JoinGroup>();
  ASSERT_EQ(joined.size(), 1U);
  EXPECT_EQ(joined[0].port, kOtherPort.value());
}

TEST_F(Groups, AreWaitedForUntilTheDaemonHasAnsweredAsManyJoins) {
  const auto first = join();
  std::vector<Membership> of_another_qp;
  const auto second =
      groups_.join(of_another_qp, kMgid, kMlid, [] { return std::optional{kPort}; });
  ASSERT_TRUE(first && second);
  groups_.handle_joined();
  groups_.wait_until_joined(*first);
  std::atomic<bool> has_joined{false};
  std::thread waits{[&] {
    groups_.wait_until_joined(*second);
    has_joined = true;
  }};
  EXPECT_FALSE(has_joined);
  groups_.handle_joined();
  waits.join();
  EXPECT_TRUE(has_joined);
}

TEST_F(Groups, AreNotWaitedForWhenTheDaemonIsGone) {
  const auto number = join();
  std::thread waits{[&] { groups_.wait_until_joined(*number); }};
  daemon_.is_over = true;
  groups_.handle_daemon_gone();
  waits.join();
}

TEST_F(Groups, ChangeTheirGenerationWithTheirMembers) {
  const std::uint64_t before = groups_.generation();
  EXPECT_TRUE(groups_.members(kMlid).empty());
  groups_.handle(uabi::GroupMembers{.mlid = kMlid, .members = {{.node = 2, .slot = 1}}});
  EXPECT_NE(groups_.generation(), before);
  ASSERT_EQ(groups_.members(kMlid).size(), 1U);
  EXPECT_EQ(groups_.members(kMlid)[0].node, 2U);
}

}  // namespace
}  // namespace weft::host
