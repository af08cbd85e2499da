// Programs at Omni-Path ports of a live fabric, by the messages of the control protocol.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "daemon/testing/live_fabric.h"
#include "fabric/testing/omni_path_star.h"
#include "host/control_socket.h"
#include "os/run_directory.h"
#include "wire/opa/packet_16b.h"

namespace weft::daemon {
namespace {

using ::testing::HasSubstr;
using testing::LiveFabric;

using Packets = std::vector<std::vector<std::byte>>;

constexpr Duration kPatience = Duration::seconds(20);
constexpr Lid kGroup{0xF0'0064};

/// What a program has of its attachment.
struct Attached {
  host::ControlSocket control{};
  host::ControlSocket packets{};
  uabi::OmniPathPortState state{};
};

class LiveOmniPath : public ::testing::Test {
 protected:
  [[nodiscard]] host::ControlSocket connected() const {
    return std::move(*host::ControlSocket::connect(os::control_path(fabric_.on("o1").run, "test")));
  }
  template <class Message>
  static Message next(const host::ControlSocket& socket) {
    auto received = socket.receive(kPatience);
    EXPECT_TRUE(received) << received.error().reason;
    if (!received || !received->message.holds<Message>()) {
      ADD_FAILURE() << "another message than " << uabi::Message::kIndexOf<Message>;
      return {};
    }
    return std::move(received->message.get<Message>());
  }
  [[nodiscard]] std::string refusal_of(const uabi::Message& message) const {
    const auto socket = connected();
    EXPECT_TRUE(socket.send(message));
    return next<uabi::Refused>(socket).reason;
  }
  static uabi::AttachOmniPath attach_to(std::string host, bool watches = false) {
    return {.version = uabi::kVersion,
            .host = std::move(host),
            .port = 1,
            .takes_ethernet = true,
            .watches_ports = watches};
  }
  [[nodiscard]] Attached attach(const std::string& host, bool watches = false) const {
    Attached made;
    EXPECT_TRUE(attaches(host, made, watches));
    return made;
  }
  [[nodiscard]] std::vector<uabi::OmniPathPortInfo> ports_of(const std::string& host) const {
    const auto socket = connected();
    EXPECT_TRUE(socket.send(uabi::AskOmniPathPorts{.version = uabi::kVersion, .host = host}));
    const auto answer = next<uabi::OmniPathPorts>(socket);
    EXPECT_TRUE(answer.is_last);
    return answer.ports;
  }
  void change(const std::string& port, const std::string& what) const {
    const auto socket = connected();
    EXPECT_TRUE(
        socket.send(uabi::ChangePort{.version = uabi::kVersion, .port = port, .change = what}));
    EXPECT_TRUE(next<uabi::Text>(socket).is_last);
  }
  static std::vector<std::byte> frame(Lid from, Lid to, std::size_t bytes = 60) {
    return wire::to_opa_packet({.slid = from, .dlid = to, .pkey = kDefaultPKey, .vesw_id = 9},
                               std::vector<std::byte>(bytes, std::byte{7}));
  }
  static bool send(const Attached& from, Packets packets) {
    uabi::OmniPathPackets batch;
    for (auto& packet : packets) {
      batch.packets.push_back({std::move(packet)});
    }
    return from.packets.send(batch).has_value();
  }
  static Packets received(const Attached& at, std::size_t count) {
    Packets all;
    while (all.size() < count && !HasFailure()) {
      for (auto& packet : next<uabi::OmniPathPackets>(at.packets).packets) {
        all.push_back(std::move(packet.octets));
      }
    }
    return all;
  }
  /// Other news may come before.
  static uabi::OmniPathPortState next_state(const Attached& at) {
    while (true) {
      auto received = at.control.receive(kPatience);
      if (!received) {
        ADD_FAILURE() << received.error().reason;
        return {};
      }
      if (const auto* const state = received->message.get_if<uabi::OmniPathPortState>()) {
        return *state;
      }
    }
  }
  /// False: another program is there.
  [[nodiscard]] bool attaches(const std::string& host, Attached& made, bool watches = false) const {
    made = {.control = connected()};
    EXPECT_TRUE(made.control.send(attach_to(host, watches)));
    auto answer = made.control.receive(kPatience);
    if (!answer || !answer->message.holds<uabi::OmniPathAttached>()) {
      return false;
    }
    made.packets = host::ControlSocket{std::move(answer->descriptors.front())};
    made.state = next<uabi::OmniPathPortState>(made.control);
    return true;
  }
  static bool join(const Attached& at, Lid mlid) {
    EXPECT_TRUE(at.control.send(uabi::JoinOmniPathGroup{mlid}));
    const auto joined = next<uabi::OmniPathGroupJoined>(at.control);
    EXPECT_EQ(joined.mlid, mlid);
    return joined.reason.empty();
  }

  LiveFabric fabric_{fabric::testing::omni_path_beside_infiniband()};
};

TEST_F(LiveOmniPath, ProgramsSendEachOtherPacketsToTheOctet) {
  const Attached first = attach("o1");
  const Attached second = attach("o2");
  EXPECT_TRUE(first.state.is_active);
  EXPECT_GT(first.state.lid.value(), 0xFFFFU);
  EXPECT_EQ(first.state.pkeys, std::vector{kDefaultPKey});
  const auto small = frame(first.state.lid, second.state.lid);
  const auto jumbo = frame(first.state.lid, second.state.lid, 10'238);
  ASSERT_TRUE(send(first, {small, jumbo, small}));
  EXPECT_EQ(received(second, 3), (Packets{small, jumbo, small}));
  const auto back = frame(second.state.lid, first.state.lid);
  ASSERT_TRUE(send(second, {back}));
  EXPECT_EQ(received(first, 1), Packets{back});
}

TEST_F(LiveOmniPath, AGroupReachesItsMembersUntilTheyEnd) {
  const Attached sender = attach("o1");
  const Attached stays = attach("o2");
  Attached goes = attach("o3");
  EXPECT_TRUE(join(stays, kGroup));
  EXPECT_TRUE(join(goes, kGroup));
  EXPECT_FALSE(join(goes, Lid{0xC001}));
  const auto flooded = frame(sender.state.lid, kGroup);
  const auto last = frame(sender.state.lid, goes.state.lid);
  ASSERT_TRUE(send(sender, {flooded}));
  EXPECT_EQ(received(stays, 1), Packets{flooded});
  EXPECT_EQ(received(goes, 1), Packets{flooded});
  goes = {};
  // The place is free as soon as the daemon has seen the end.
  while (!attaches("o3", goes)) {
    ::poll(nullptr, 0, 5);
  }
  ASSERT_TRUE(send(sender, {flooded, last}));
  EXPECT_EQ(received(stays, 1), Packets{flooded});
  EXPECT_EQ(received(goes, 1), Packets{last}) << "this program has joined nothing";
  ASSERT_TRUE(stays.control.send(uabi::LeaveOmniPathGroup{kGroup}));
  EXPECT_TRUE(join(stays, Lid{kGroup.value() + 1}));  // so that it has left by now
  const auto alone = frame(sender.state.lid, stays.state.lid);
  ASSERT_TRUE(send(sender, {flooded, alone}));
  EXPECT_EQ(received(stays, 1), Packets{alone});
}

TEST_F(LiveOmniPath, ProgramsAreToldOfTheirPortsState) {
  const Attached at = attach("o2");
  change("o2:1", "unplug");
  EXPECT_FALSE(next_state(at).is_active);
  change("o2:1", "plug");
  const auto again = next_state(at);
  EXPECT_TRUE(again.is_active);
  EXPECT_EQ(again.lid, at.state.lid);
}

TEST_F(LiveOmniPath, CapabilitiesAreSeenByOthersUntilTheProgramEnds) {  // R-VN-12
  EXPECT_EQ(ports_of("").size(), 3U);
  EXPECT_TRUE(ports_of("h1").empty());
  Attached agent = attach("o2");
  ASSERT_TRUE(
      agent.control.send(uabi::SetOmniPathCapabilities{.mask = uabi::kOmniPathEthernetOnFabric}));
  EXPECT_TRUE(join(agent, kGroup));  // so that it is set by now
  const auto set = ports_of("o2");
  ASSERT_EQ(set.size(), 1U);
  EXPECT_EQ(set[0].host, "o2");
  EXPECT_EQ(set[0].lid, agent.state.lid);
  EXPECT_TRUE(set[0].is_active);
  EXPECT_EQ(set[0].capabilities, uabi::kOmniPathEthernetOnFabric);
  agent = {};
  auto unset = ports_of("o2");
  for (int turn = 0; turn < 1'000 && unset[0].capabilities != 0; ++turn) {
    ::poll(nullptr, 0, 10);
    unset = ports_of("o2");
  }
  EXPECT_EQ(unset[0].capabilities, 0U);
  EXPECT_NE(unset[0].capability_changes, set[0].capability_changes);
}

/// Once until it asks; without a change, it would wait for nothing.
TEST_F(LiveOmniPath, AWatcherIsToldThatPortsHaveChanged) {
  const Attached watcher = attach("o1", true);
  const Attached agent = attach("o2");
  for (const std::uint16_t mask : {std::uint16_t{1}, std::uint16_t{2}}) {
    ASSERT_TRUE(
        watcher.control.send(uabi::AskOmniPathPorts{.version = uabi::kVersion, .host = ""}));
    auto received = watcher.control.receive(kPatience);
    while (received && received->message.holds<uabi::OmniPathPortsChanged>()) {
      received = watcher.control.receive(kPatience);
    }
    ASSERT_TRUE(received && received->message.holds<uabi::OmniPathPorts>());
    EXPECT_EQ(received->message.get<uabi::OmniPathPorts>().ports.size(), 3U);
    ASSERT_TRUE(agent.control.send(uabi::SetOmniPathCapabilities{.mask = mask}));
    static_cast<void>(next<uabi::OmniPathPortsChanged>(watcher.control));
  }
}

TEST_F(LiveOmniPath, WhatCannotBeIsRefusedInWords) {
  EXPECT_THAT(refusal_of(attach_to("h1")), HasSubstr("no Omni-Path port"));
  EXPECT_THAT(refusal_of(attach_to("o9")), HasSubstr("no host or switch o9"));
  EXPECT_THAT(refusal_of(attach_to("os1")), HasSubstr("os1 is a switch"));
  auto wrong = attach_to("o1");
  wrong.port = 2;
  EXPECT_THAT(refusal_of(wrong), HasSubstr("no port 2"));
  wrong = attach_to("o1");
  wrong.hca = 1;
  EXPECT_THAT(refusal_of(wrong), HasSubstr("HCA 1"));
  wrong = attach_to("o1");
  wrong.version = 1;
  EXPECT_THAT(refusal_of(wrong), HasSubstr("version 1"));
  EXPECT_THAT(refusal_of(uabi::AskOmniPathPorts{.version = 1, .host = ""}), HasSubstr("version 1"));
  const Attached first = attach("o1");
  EXPECT_THAT(refusal_of(attach_to("o1")), HasSubstr("another program at this port"));
  ASSERT_TRUE(first.control.send(attach_to("o2")));
  EXPECT_THAT(next<uabi::Refused>(first.control).reason, HasSubstr("attached to a port already"));
}

/// And what is none of its kinds is dropped.
TEST_F(LiveOmniPath, ASocketThatCarriesNoBatchesIsClosed) {
  const Attached at = attach("o1");
  auto wild = frame(at.state.lid, at.state.lid);
  wild.pop_back();
  const Attached other = attach("o2");
  const auto good = frame(at.state.lid, other.state.lid);
  ASSERT_TRUE(send(at, {wild, {}, good}));
  EXPECT_EQ(received(other, 1), Packets{good});
  ASSERT_TRUE(at.packets.send(uabi::Down{.version = uabi::kVersion}));
  const auto end = at.packets.receive(kPatience);
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().code, ErrorCode::Refused);
}

/// A program that does not read its packets stops nobody, and learns how many it has lost.
TEST_F(LiveOmniPath, WhoDoesNotReadLosesAndStopsNobody) {
  const Attached sender = attach("o1");
  const Attached idle = attach("o2");
  const Attached busy = attach("o3");
  constexpr std::size_t kBatches = 400;
  const Packets batch(uabi::kMaxOmniPathPackets, frame(sender.state.lid, idle.state.lid));
  for (std::size_t i = 0; i < kBatches; ++i) {
    while (!send(sender, batch)) {  // until the daemon has taken some
      pollfd room{.fd = sender.packets.fd(), .events = POLLOUT, .revents = 0};
      ASSERT_EQ(::poll(&room, 1, 20'000), 1);
    }
  }
  const auto last = frame(sender.state.lid, busy.state.lid);
  while (!send(sender, {last})) {
    ::poll(nullptr, 0, 5);
  }
  EXPECT_EQ(received(busy, 1), Packets{last});
  std::size_t got = 0;
  std::uint64_t lost = 0;
  while (got + lost < kBatches * uabi::kMaxOmniPathPackets && !HasFailure()) {
    const auto taken = next<uabi::OmniPathPackets>(idle.packets);
    got += taken.packets.size();
    lost = taken.lost;
  }
  EXPECT_GT(got, 4'096U);
  EXPECT_GT(lost, 0U);
}

TEST_F(LiveOmniPath, AHostThatIsRemovedEndsItsPrograms) {
  const Attached at = attach("o3");
  const auto socket = connected();
  ASSERT_TRUE(socket.send(uabi::ChangeNode{.version = uabi::kVersion, .change = "remove o3"}));
  EXPECT_TRUE(next<uabi::Text>(socket).is_last);
  auto message = at.control.receive(kPatience);
  while (message && !message->message.holds<uabi::Refused>()) {  // its port goes down first
    message = at.control.receive(kPatience);
  }
  ASSERT_TRUE(message) << message.error().reason;
  EXPECT_THAT(message->message.get<uabi::Refused>().reason, HasSubstr("was removed"));
  EXPECT_EQ(ports_of("").size(), 2U);
}

}  // namespace
}  // namespace weft::daemon
