#include "daemon/rdma_cm/channel.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>

namespace weft::daemon {
namespace {

constexpr cm::RdmaCmId kListener{1};
constexpr cm::RdmaCmId kChild{2};

/// A channel and the end of its socket that a program polls.
struct RdmaCmChannelTest : ::testing::Test {
  RdmaCmChannelTest() {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    theirs = std::make_shared<const os::UniqueFd>(ends[1]);
    channel = std::make_unique<RdmaCmChannel>(
        RdmaCmChannel::Owner{.number = 1, .pid = 1, .host = {}, .loopback_target = {}},
        os::UniqueFd{ends[0]}, theirs);
  }
  [[nodiscard]] bool is_readable() const {
    pollfd poll_for{.fd = ends[1], .events = POLLIN, .revents = 0};
    return poll(&poll_for, 1, 0) == 1;
  }
  void give(cm::RdmaCmEventType type, cm::RdmaCmId id) const {
    EXPECT_TRUE(channel->take({.type = type, .id = id}));
  }

  std::array<int, 2> ends{-1, -1};
  std::shared_ptr<const os::UniqueFd> theirs;
  std::unique_ptr<RdmaCmChannel> channel;
};

TEST_F(RdmaCmChannelTest, IsReadableExactlyWhileAnEventWaits) {
  channel->add(kListener);
  EXPECT_FALSE(is_readable());
  for (int round = 0; round < 3; ++round) {
    give(cm::RdmaCmEventType::AddressResolved, kListener);
    give(cm::RdmaCmEventType::RouteResolved, kListener);
    EXPECT_TRUE(is_readable());
    EXPECT_EQ(channel->next()->type, cm::RdmaCmEventType::AddressResolved);
    EXPECT_TRUE(is_readable());
    EXPECT_EQ(channel->next()->type, cm::RdmaCmEventType::RouteResolved);
    EXPECT_FALSE(is_readable());
    EXPECT_FALSE(channel->next());
  }
}

TEST_F(RdmaCmChannelTest, WhatAnIdLeavesIsCountedAndForgotten) {
  channel->add(kListener);
  give(cm::RdmaCmEventType::AddressResolved, kListener);
  static_cast<void>(channel->next());
  EXPECT_TRUE(channel->take(
      {.type = cm::RdmaCmEventType::ConnectRequest, .id = kChild, .listener = kListener}));
  const auto remains = channel->remove(kListener);
  EXPECT_EQ(remains.reported, 1U);
  ASSERT_EQ(remains.events.size(), 1U);
  EXPECT_EQ(remains.events.front().id, kChild);
  EXPECT_FALSE(is_readable());
  EXPECT_TRUE(channel->has(kChild));
  EXPECT_FALSE(channel->has(kListener));
}

TEST_F(RdmaCmChannelTest, WhatOneIdLeavesIsInOrderAndSoIsTheRest) {
  constexpr cm::RdmaCmId kOther{7};
  channel->add(kListener);
  channel->add(kOther);
  give(cm::RdmaCmEventType::AddressResolved, kListener);
  give(cm::RdmaCmEventType::AddressResolved, kOther);
  give(cm::RdmaCmEventType::RouteResolved, kOther);
  give(cm::RdmaCmEventType::RouteResolved, kListener);
  give(cm::RdmaCmEventType::Disconnected, kOther);
  EXPECT_EQ(channel->next()->id, kListener);
  const auto remains = channel->remove(kOther);
  ASSERT_EQ(remains.events.size(), 3U);
  EXPECT_EQ(remains.events.front().type, cm::RdmaCmEventType::AddressResolved);
  EXPECT_EQ(remains.events.back().type, cm::RdmaCmEventType::Disconnected);
  EXPECT_EQ(channel->next()->type, cm::RdmaCmEventType::RouteResolved);
  EXPECT_FALSE(channel->next());
  EXPECT_EQ(channel->remove(kListener).reported, 2U);
}

TEST_F(RdmaCmChannelTest, AConnectionRequestIsTheListenersEvent) {
  channel->add(kListener);
  EXPECT_TRUE(channel->take(
      {.type = cm::RdmaCmEventType::ConnectRequest, .id = kChild, .listener = kListener}));
  static_cast<void>(channel->next());
  EXPECT_EQ(channel->remove(kChild).reported, 0U);
  EXPECT_EQ(channel->remove(kListener).reported, 1U);
}

TEST_F(RdmaCmChannelTest, TakesSoManyConnectionRequestsThatNobodyFetches) {
  channel->add(kListener);
  const cm::RdmaCmEvent request{
      .type = cm::RdmaCmEventType::ConnectRequest, .id = kChild, .listener = kListener};
  for (std::size_t i = 0; i < RdmaCmChannel::kMaxRequests; ++i) {
    ASSERT_TRUE(channel->take(request));
  }
  EXPECT_FALSE(channel->take(request));
  give(cm::RdmaCmEventType::Disconnected, kListener);  // others have room
  static_cast<void>(channel->next());
  EXPECT_TRUE(channel->take(request));
}

TEST_F(RdmaCmChannelTest, TakesSoManyEventsThatProgramsWrite) {
  channel->add(kListener);
  const cm::RdmaCmEvent written{.type = cm::RdmaCmEventType::User, .id = kListener, .argument = 7};
  for (std::size_t i = 0; i < RdmaCmChannel::kMostWritten; ++i) {
    ASSERT_TRUE(channel->take(written));
  }
  EXPECT_FALSE(channel->take(written));
  EXPECT_FALSE(channel->take({.type = cm::RdmaCmEventType::AddrinfoResolved, .id = kListener}));
  give(cm::RdmaCmEventType::Disconnected, kListener);  // others have room
  EXPECT_EQ(channel->next()->argument, 7U);
  EXPECT_TRUE(channel->take(written));
  EXPECT_FALSE(channel->has_room_for(*channel));
  static_cast<void>(channel->remove(kListener));
  EXPECT_TRUE(channel->has_room_for(*channel));
}

TEST_F(RdmaCmChannelTest, EventsMoveToAnotherChannelWithTheirId) {
  channel->add(kListener);
  give(cm::RdmaCmEventType::AddressResolved, kListener);
  std::array<int, 2> others{-1, -1};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, others.data()), 0);
  RdmaCmChannel other{
      RdmaCmChannel::Owner{.number = 2, .pid = 1, .host = {}, .loopback_target = {}},
      os::UniqueFd{others[0]},
      std::make_shared<const os::UniqueFd>(others[1])
  };
  const auto remains = channel->remove(kListener);
  other.add(kListener, remains.reported);
  other.append(remains.events);
  EXPECT_FALSE(is_readable());
  EXPECT_EQ(other.next()->type, cm::RdmaCmEventType::AddressResolved);
}

TEST_F(RdmaCmChannelTest, ForgetsTheEventsOfAGroupThatIsLeft) {
  constexpr cm::GroupId kGroup{5};
  channel->add(kListener);
  const cm::RdmaCmEvent joined{
      .type = cm::RdmaCmEventType::MulticastJoin, .id = kListener, .group = kGroup};
  EXPECT_TRUE(channel->take(joined));
  static_cast<void>(channel->next());
  EXPECT_TRUE(channel->take(joined));
  EXPECT_EQ(channel->forget(kListener, kGroup), 1U);
  EXPECT_FALSE(is_readable());
  EXPECT_EQ(channel->remove(kListener).reported, 1U);
}

}  // namespace
}  // namespace weft::daemon
