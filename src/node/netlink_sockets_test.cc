#include "node/netlink_sockets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <string_view>

namespace weft::node {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

static_assert(static_cast<int>(NetlinkOption::PacketInfo) == NETLINK_PKTINFO);
static_assert(static_cast<int>(NetlinkOption::NoOverruns) == NETLINK_NO_ENOBUFS);
static_assert(static_cast<int>(NetlinkOption::CapAcknowledgements) == NETLINK_CAP_ACK);
static_assert(static_cast<int>(NetlinkOption::StrictChecks) == NETLINK_GET_STRICT_CHK);

constexpr fabric::NodeIndex kHost{0};
constexpr fabric::NodeIndex kOther{1};

class SocketsOfHosts : public ::testing::Test {
 protected:
  using Id = NetlinkSockets::Id;
  Id open(fabric::NodeIndex host = kHost, std::uint32_t pid = 100) {
    return *sockets_.open(host, pid, SOCK_RAW);
  }
  static ByteSpan bytes(std::string_view text) { return std::as_bytes(std::span{text}); }
  /// What waits, taken: texts, or "overrun".
  std::vector<std::string> take(Id socket) {
    std::vector<std::string> texts;
    while (const NetlinkDatagram* const next = sockets_.front(socket)) {
      std::string text = next->is_overrun ? "overrun" : "";
      for (const std::byte octet : next->bytes) {
        text += static_cast<char>(octet);
      }
      texts.push_back(text);
      sockets_.pop(socket);
    }
    sockets_.check_invariants();
    return texts;
  }

  std::vector<Id> news_;
  NetlinkSockets sockets_{[this](Id socket) { news_.push_back(socket); }};
};

TEST_F(SocketsOfHosts, AddressIsTheProcesssNumberOnceThenASpareOne) {
  const Id first = open();
  const Id second = open();
  const Id elsewhere = open(kOther);
  for (const Id each : {first, second, elsewhere}) {
    EXPECT_EQ(sockets_.bind(each, 0, 0), 0);
  }
  EXPECT_EQ(sockets_.describe(first).port, 100U);
  EXPECT_LT(static_cast<std::int32_t>(sockets_.describe(second).port), 0);
  EXPECT_EQ(sockets_.describe(elsewhere).port, 100U) << "another host is another world";
  sockets_.close(first);
  const Id third = open();
  EXPECT_EQ(sockets_.bind(third, 0, 0), 0);
  EXPECT_EQ(sockets_.describe(third).port, 100U);
  sockets_.check_invariants();
}

TEST_F(SocketsOfHosts, BindRefusesWhatLinuxRefuses) {
  const Id first = open();
  const Id second = open();
  EXPECT_EQ(sockets_.bind(first, 7, 0), 0);
  EXPECT_EQ(sockets_.bind(second, 7, 0), -EADDRINUSE);
  EXPECT_EQ(sockets_.bind(first, 8, 0), -EINVAL) << "it has an address";
  EXPECT_EQ(sockets_.bind(first, 7, 4), 0) << "groups may change";
  EXPECT_EQ(sockets_.describe(first).groups, 4U);
  EXPECT_EQ(sockets_.join(first, 0), -EINVAL);
  EXPECT_EQ(sockets_.join(first, 33), -EINVAL);
  EXPECT_EQ(sockets_.leave(first, 33), -EINVAL);
  EXPECT_EQ(sockets_.set_option(first, 31, true), -ENOPROTOOPT);
  EXPECT_EQ(sockets_.set_option(first, NETLINK_PKTINFO, true), 0);
  EXPECT_EQ(sockets_.describe(first).options, 1U << NETLINK_PKTINFO);
}

TEST_F(SocketsOfHosts, DatagramsGoFromPortToPortOnOneHost) {
  const Id from = open();
  const Id to = open(kHost, 200);
  const Id elsewhere = open(kOther, 200);
  ASSERT_EQ(sockets_.bind(to, 0, 0), 0);
  ASSERT_EQ(sockets_.bind(elsewhere, 0, 0), 0);
  const auto sent = sockets_.send(from, {.port = 200}, bytes("hello"));
  EXPECT_EQ(sent.error, 0);
  EXPECT_FALSE(sent.is_for_kernel);
  ASSERT_NE(sockets_.front(to), nullptr);
  EXPECT_EQ(sockets_.front(to)->port, 100U) << "bound by sending";
  EXPECT_EQ(sockets_.front(to)->pid, 100U);
  EXPECT_THAT(take(to), ElementsAre("hello"));
  EXPECT_THAT(take(elsewhere), IsEmpty());
  EXPECT_EQ(sockets_.send(from, {.port = 300}, bytes("nobody")).error, -ECONNREFUSED);
  EXPECT_TRUE(sockets_.send(from, {}, bytes("kernel")).is_for_kernel);
}

TEST_F(SocketsOfHosts, AConnectedSocketHearsItsPeerAlone) {
  const Id own = open();
  const Id peer = open(kHost, 200);
  const Id stranger = open(kHost, 300);
  ASSERT_EQ(sockets_.connect(own, 200, 0), 0);
  EXPECT_EQ(sockets_.send(stranger, {.port = 100}, bytes("x")).error, -ECONNREFUSED);
  EXPECT_EQ(sockets_.send(peer, {.port = 100}, bytes("y")).error, 0);
  EXPECT_EQ(sockets_.default_destination(own), (NetlinkSockets::Destination{.port = 200}));
  sockets_.disconnect(own);
  EXPECT_EQ(sockets_.send(stranger, {.port = 100}, bytes("z")).error, 0);
  EXPECT_THAT(take(own), ElementsAre("y", "z"));
}

TEST_F(SocketsOfHosts, GroupsReachTheirMembersButTheSender) {
  const Id sender = open();
  const Id member = open(kHost, 200);
  const Id both = open(kHost, 300);
  const Id stranger = open(kHost, 400);
  for (const Id each : {sender, member, both}) {
    ASSERT_EQ(sockets_.join(each, 3), 0);
  }
  ASSERT_EQ(sockets_.bind(both, 0, 1U << 2), 0);
  EXPECT_EQ(sockets_.send(sender, NetlinkSockets::destination(300, 1U << 2), bytes("g")).error, 0);
  EXPECT_THAT(take(member), ElementsAre("g"));
  EXPECT_THAT(take(both), ElementsAre("g")) << "once, by its port";
  EXPECT_THAT(take(sender), IsEmpty());
  EXPECT_THAT(take(stranger), IsEmpty());
  ASSERT_EQ(sockets_.leave(member, 3), 0);
  EXPECT_EQ(sockets_.multicast(kHost, NetlinkGroup::LocalService, bytes("k")), 0);
  EXPECT_EQ(sockets_.front(both)->group, 3U);
  EXPECT_EQ(sockets_.front(both)->port, 0U) << "the kernel";
  EXPECT_THAT(take(member), IsEmpty());
}

TEST_F(SocketsOfHosts, TheKernelLearnsThatNobodyListens) {
  EXPECT_EQ(sockets_.multicast(kHost, NetlinkGroup::LocalService, bytes("k")), -ESRCH);
  EXPECT_FALSE(sockets_.has_listeners(kHost, NetlinkGroup::LocalService));
  const Id elsewhere = open(kOther);
  ASSERT_EQ(sockets_.join(elsewhere, 3), 0);
  EXPECT_FALSE(sockets_.has_listeners(kHost, NetlinkGroup::LocalService));
  EXPECT_TRUE(sockets_.has_listeners(kOther, NetlinkGroup::LocalService));
  EXPECT_EQ(sockets_.unicast(kHost, 100, bytes("k")), -ECONNREFUSED);
}

TEST_F(SocketsOfHosts, OfLocalServicesTheKernelsSideSpeaksToThePrivileged) {
  const auto stranger = *sockets_.open(kHost, 300, SOCK_RAW, false);
  ASSERT_EQ(sockets_.join(stranger, std::to_underlying(NetlinkGroup::LocalService)), 0);
  ASSERT_EQ(sockets_.join(stranger, std::to_underlying(NetlinkGroup::Notify)), 0);
  EXPECT_FALSE(sockets_.has_listeners(kHost, NetlinkGroup::LocalService));
  EXPECT_TRUE(sockets_.has_listeners(kHost, NetlinkGroup::Notify));
  EXPECT_EQ(sockets_.multicast(kHost, NetlinkGroup::LocalService, bytes("?")), -ESRCH);
  EXPECT_EQ(sockets_.front(stranger), nullptr);
  EXPECT_FALSE(sockets_.sender(stranger).is_privileged);
  const auto resolver = *sockets_.open(kHost, 301, SOCK_RAW, true);
  ASSERT_EQ(sockets_.join(resolver, std::to_underlying(NetlinkGroup::LocalService)), 0);
  EXPECT_EQ(sockets_.multicast(kHost, NetlinkGroup::LocalService, bytes("?")), 0);
  EXPECT_EQ(sockets_.front(stranger), nullptr);
  EXPECT_NE(sockets_.front(resolver), nullptr);
}

TEST_F(SocketsOfHosts, AReaderThatDoesNotReadIsToldOnceWhatItLost) {
  const Id slow = open();
  ASSERT_EQ(sockets_.bind(slow, 0, 0), 0);
  sockets_.set_room(slow, 0);
  const std::string big(NetlinkSockets::kLeastRoom, 'a');
  EXPECT_EQ(sockets_.unicast(kHost, 100, bytes(big)), 0);
  EXPECT_EQ(sockets_.unicast(kHost, 100, bytes("b")), -EAGAIN);
  EXPECT_EQ(sockets_.unicast(kHost, 100, bytes("c")), -EAGAIN);
  EXPECT_EQ(news_.size(), 1U);
  sockets_.pop(slow);
  EXPECT_EQ(sockets_.unicast(kHost, 100, bytes("d")), -EAGAIN) << "not before all is read";
  EXPECT_THAT(take(slow), ElementsAre("overrun"));
  EXPECT_EQ(sockets_.unicast(kHost, 100, bytes("e")), 0);
  EXPECT_THAT(take(slow), ElementsAre("e"));
  EXPECT_EQ(news_.size(), 2U);
}

TEST_F(SocketsOfHosts, NoOverrunIsToldWhereNoneIsWanted) {
  const Id slow = open();
  ASSERT_EQ(sockets_.bind(slow, 0, 0), 0);
  ASSERT_EQ(sockets_.set_option(slow, NETLINK_NO_ENOBUFS, true), 0);
  sockets_.set_room(slow, 0);
  const std::string big(NetlinkSockets::kLeastRoom, 'a');
  EXPECT_EQ(sockets_.unicast(kHost, 100, bytes(big)), 0);
  EXPECT_EQ(sockets_.unicast(kHost, 100, bytes("b")), -EAGAIN);
  EXPECT_THAT(take(slow), ElementsAre(big));
}

TEST_F(SocketsOfHosts, AnswersComeWholeOrNotAtAll) {
  const Id own = open();
  const auto two = [] {
    return std::vector<std::vector<std::byte>>(2, std::vector<std::byte>(5'000));
  };
  sockets_.set_room(own, 6'000);
  EXPECT_TRUE(sockets_.answer(own, two()));
  EXPECT_FALSE(sockets_.answer(own, two()));
  EXPECT_THAT(take(own),
              ElementsAre(std::string(5'000, '\0'), std::string(5'000, '\0'), "overrun"));
  sockets_.close(own);
  EXPECT_FALSE(sockets_.answer(own, two())) << "it went meanwhile";
}

}  // namespace
}  // namespace weft::node
