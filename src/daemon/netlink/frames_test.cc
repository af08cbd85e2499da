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
  const auto frame = frame_of(
      {
          .port = 7, .pid = 8, .group = 3, .bytes = {std::byte{1}, std::byte{2}}
  },
      true);
  NetlinkFrameHead head;
  std::memcpy(&head, frame.data(), sizeof head);
  EXPECT_EQ(head.kind, Datagram);
  EXPECT_EQ(head.value, 3 | uabi::kHasPacketInfo);
  EXPECT_EQ(head.port, 7U);
  EXPECT_EQ(head.pid, 8U);
  EXPECT_EQ(frame.size(), sizeof head + 2);
  const auto lost = frame_of({.is_overrun = true}, false);
  std::memcpy(&head, lost.data(), sizeof head);
  EXPECT_EQ(head.kind, Overrun);
}

}  // namespace
}  // namespace weft::daemon
