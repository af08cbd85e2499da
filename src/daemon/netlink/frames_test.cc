#include "daemon/netlink/frames.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "daemon/request_budget.h"
#include "host_view/rdma_netlink.h"
#include "wire/netlink/message.h"

namespace weft::daemon {
namespace {

using uabi::NetlinkFrame;
using uabi::NetlinkFrameHead;
using enum uabi::NetlinkFrameKind;

std::vector<std::byte> bytes_of(const NetlinkFrameHead& head, std::size_t payload) {
  std::vector<std::byte> bytes(sizeof head + payload);
  std::memcpy(bytes.data(), &head, sizeof head);
  return bytes;
}

TEST(NetlinkFrames, OfProgramsAreTakenWithWhatBelongsToThem) {
  const auto parse = [](const NetlinkFrameHead& head, std::size_t payload) {
    return uabi::parse_netlink_frame(bytes_of(head, payload)).has_value();
  };
  EXPECT_TRUE(parse({.kind = Open}, uabi::kMaxNetlinkHostName));
  EXPECT_FALSE(parse({.kind = Open}, uabi::kMaxNetlinkHostName + 1));
  EXPECT_TRUE(parse({.kind = Send}, uabi::kMaxNetlinkDatagram));
  EXPECT_FALSE(parse({.kind = SendTo}, uabi::kMaxNetlinkDatagram + 1));
  EXPECT_TRUE(parse({.kind = Bind}, 0));
  EXPECT_FALSE(parse({.kind = Bind}, 1));
  EXPECT_FALSE(parse({.kind = Datagram}, 0)) << "the daemon's own";
  EXPECT_FALSE(parse({.kind = static_cast<uabi::NetlinkFrameKind>(0)}, 0));
  const auto whole = bytes_of({.kind = Describe}, 0);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(uabi::parse_netlink_frame(std::span{whole}.first(length)).has_value());
  }
}

/// Datagrams of so many octets, as SendMany has them.
std::vector<std::byte> many(std::initializer_list<std::uint32_t> lengths, std::uint32_t port) {
  auto bytes = bytes_of({.kind = SendMany, .port = port}, 0);
  for (const std::uint32_t length : lengths) {
    const std::size_t at = bytes.size();
    bytes.resize(at + sizeof length + length);
    std::memcpy(bytes.data() + at, &length, sizeof length);
  }
  return bytes;
}

TEST(NetlinkFrames, WithSeveralDatagramsAreWholeOrNone) {
  EXPECT_TRUE(uabi::parse_netlink_frame(many({1, 5, 3}, 9)).has_value());
  EXPECT_FALSE(uabi::parse_netlink_frame(many({}, 9)).has_value());
  EXPECT_FALSE(uabi::parse_netlink_frame(many({4, 0}, 9)).has_value()) << "one without octets";
  EXPECT_FALSE(uabi::parse_netlink_frame(many({60'000, 6'000}, 9)).has_value());
  const auto whole = many({3, 4}, 9);
  const std::size_t first = sizeof(NetlinkFrameHead) + sizeof(std::uint32_t) + 3;
  for (std::size_t length = sizeof(NetlinkFrameHead); length < whole.size(); ++length) {
    EXPECT_EQ(uabi::parse_netlink_frame(std::span{whole}.first(length)).has_value(),
              length == first);
  }
}

TEST(NetlinkFrames, WithSeveralDatagramsSayHowManyWereTaken) {
  node::NetlinkSockets sockets;
  const auto from = *sockets.open(fabric::NodeIndex{0}, 100, SOCK_RAW);
  const auto to = *sockets.open(fabric::NodeIndex{0}, 101, SOCK_RAW);
  const auto send = [&](std::initializer_list<std::uint32_t> lengths, std::uint32_t port) {
    const auto bytes = many(lengths, port);
    return send_many(sockets, from, *uabi::parse_netlink_frame(bytes));
  };
  EXPECT_EQ(send({4, 8}, 9).error, -ECONNREFUSED);
  EXPECT_EQ(send({4, 8}, 0).error, -EINVAL) << "the kernel's side answers one by one";
  ASSERT_EQ(sockets.bind(to, 9, 0), 0);
  sockets.set_room(to, 0);  // the least
  const SentMany all = send({4, 8}, 9);
  EXPECT_EQ(all.error, 0);
  EXPECT_EQ(all.taken, 2U);
  ASSERT_EQ(sockets.waiting(to).size(), 2U);
  EXPECT_EQ(sockets.waiting(to)[1].bytes.size(), 8U);
  EXPECT_EQ(sockets.waiting(to)[1].port, sockets.describe(from).port);
  const SentMany some = send({4'000, 4'000, 4'000}, 9);
  EXPECT_EQ(some.error, -EAGAIN);
  EXPECT_EQ(some.taken, 2U);
  EXPECT_EQ(answer_of(sockets, from, some.error, some.taken).taken, 2U);
}

TEST(NetlinkFrames, CostWhatTheDaemonDoesForThem) {
  const auto cost = [](const NetlinkFrameHead& head, std::uint16_t type) {
    std::vector<std::byte> datagram;
    wire::netlink::MessageWriter writer{datagram};
    writer.begin({.type = type, .flags = wire::netlink::kFlagRequest});
    writer.end();
    auto bytes = bytes_of(head, 0);
    bytes.insert(bytes.end(), datagram.begin(), datagram.end());
    return cost_of(*uabi::parse_netlink_frame(bytes));
  };
  using host_view::type_of;
  const std::int64_t devices = cost({.kind = SendTo}, type_of(host_view::Client::Nldev, 1));
  const std::int64_t services = cost({.kind = SendTo}, type_of(host_view::Client::Ls, 0));
  EXPECT_GE(devices, 4 * RequestBudget::kMessage);
  EXPECT_EQ(services, RequestBudget::kMessage / 4) << "as many as RDMA-CM's messages";
  EXPECT_EQ(cost_of({.head = {.kind = Describe}, .payload = {}}), RequestBudget::kMessage);
  const auto together = [](std::initializer_list<std::uint32_t> lengths) {
    const auto bytes = many(lengths, 9);
    return cost_of(*uabi::parse_netlink_frame(bytes));
  };
  EXPECT_EQ(together({1}), services);
  EXPECT_EQ(together({1, 1, 1, 1, 1, 1, 1, 1}), services);
  EXPECT_EQ(together({1, 1, 1, 1, 1, 1, 1, 1, 1}), 2 * services);
}

TEST(NetlinkFrames, DoWhatTheySay) {
  node::NetlinkSockets sockets;
  const auto id = *sockets.open(fabric::NodeIndex{0}, 100, SOCK_RAW);
  const auto change = [&](const NetlinkFrameHead& head) {
    return change_socket(sockets, id, {.head = head, .payload = {}});
  };
  EXPECT_EQ(change({.kind = Bind, .value = 2, .port = 9}), 0);
  EXPECT_EQ(change({.kind = Bind, .port = 10}), -EINVAL);
  EXPECT_EQ(change({.kind = Connect, .value = 4, .port = 11}), 0);
  EXPECT_EQ(change({.kind = Join, .value = 4}), 0);
  EXPECT_EQ(change({.kind = Leave, .value = 2}), 0);
  EXPECT_EQ(change({.kind = SetOption, .value = 1, .port = NETLINK_CAP_ACK}), 0);
  EXPECT_EQ(change({.kind = SetRoom, .value = 1}), 0);
  EXPECT_EQ(change({.kind = Describe}), 0);
  const uabi::NetlinkAnswer answer = answer_of(sockets, id, -EPERM);
  EXPECT_EQ(answer.error, EPERM);
  EXPECT_EQ(answer.type, static_cast<std::uint32_t>(SOCK_RAW));
  EXPECT_EQ(answer.port, 9U);
  EXPECT_EQ(answer.groups, 8U);
  EXPECT_EQ(answer.peer_port, 11U);
  EXPECT_EQ(answer.peer_groups, 4U);
  EXPECT_EQ(answer.options, 1U << NETLINK_CAP_ACK);
  EXPECT_EQ(destination_of(sockets, id, {.head = {.kind = Send}, .payload = {}}),
            (node::NetlinkSockets::Destination{.port = 11, .group = 3}));
  EXPECT_EQ(destination_of(sockets, id,
                           {
                               .head = {.kind = SendTo, .value = 1, .port = 5},
                                 .payload = {}
  }),
            (node::NetlinkSockets::Destination{.port = 5, .group = 1}));
  EXPECT_EQ(change({.kind = Disconnect}), 0);
  EXPECT_EQ(answer_of(sockets, id, 0).peer_port, 0U);
}

TEST(NetlinkFrames, OfDatagramsSayWhoSentThem) {
  const NetlinkFrameHead head = head_of(
      {
          .port = 7, .pid = 8, .group = 3, .bytes = {std::byte{1}, std::byte{2}}
  },
      true);
  EXPECT_EQ(head.kind, Datagram);
  EXPECT_EQ(head.value, 3 | uabi::kHasPacketInfo);
  EXPECT_EQ(head.port, 7U);
  EXPECT_EQ(head.pid, 8U);
  const NetlinkFrameHead lost = head_of({.is_overrun = true}, false);
  EXPECT_EQ(lost.kind, Overrun);
  EXPECT_EQ(lost.value, 0U);
}

}  // namespace
}  // namespace weft::daemon
