// The table of requests: what a client hears that sends a message which is not for it. That each
// request has one row, the table itself asserts.

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "daemon/testing/live_fabric.h"
#include "host/control_socket.h"
#include "os/run_directory.h"
#include "uabi/directions.h"

namespace weft::daemon {
namespace {

using testing::LiveFabric;

class RequestTable : public ::testing::Test {
 protected:
  [[nodiscard]] host::ControlSocket connected() const {
    return std::move(*host::ControlSocket::connect(os::control_path(fabric_.on("h1").run, "test")));
  }
  /// With the descriptors that it needs.
  static bool send(const host::ControlSocket& socket, const uabi::Message& message) {
    const os::UniqueFd descriptor{eventfd(0, EFD_CLOEXEC)};
    const std::vector<int> numbers(uabi::descriptors_of(message), descriptor.get());
    return socket.send(message, numbers).has_value();
  }
  /// What the daemon refuses the connection's end with; empty: something else came.
  static std::string refusal(const host::ControlSocket& socket) {
    const auto answer = socket.receive(Duration::seconds(10));
    const auto* const refused = answer ? answer->message.get_if<uabi::Refused>() : nullptr;
    return refused != nullptr ? refused->reason : "";
  }
  [[nodiscard]] std::string refusal_of(const uabi::Message& message) const {
    const auto socket = connected();
    return send(socket, message) ? refusal(socket) : "not sent";
  }

  LiveFabric fabric_{"pair"};
};

template <class... Messages, class Each>
void for_each_of(uabi::MessageList<Messages...> /*list*/, Each each) {
  (each(Messages{}), ...);
}

TEST_F(RequestTable, RefusesWhatTheDaemonSays) {
  for_each_of(uabi::FromDaemon{}, [&]<class Message>(const Message& message) {
    if constexpr (uabi::FromClients::kCount<Message> == 0) {
      EXPECT_EQ(refusal_of(message), "a message that this client may not send: it is the daemon's")
          << uabi::Message{message}.index();
    }
  });
}

TEST_F(RequestTable, RefusesUmadMessagesOutsideOfTheirOwnSocket) {
  EXPECT_NE(refusal_of(uabi::UmadMad{}).find("it is the daemon's"), std::string::npos);
  EXPECT_NE(refusal_of(uabi::OmniPathPackets{}).find("it is the daemon's"), std::string::npos);
}

TEST_F(RequestTable, RefusesAProgramsRequestsBeforeHello) {
  using OfPrograms = uabi::MessageList<
      uabi::OpenLane, uabi::JoinGroup, uabi::LeaveGroup, uabi::TapReady, uabi::ReportPeer,
      uabi::CommunicationEstablished, uabi::OpenXrcDomain, uabi::CloseXrcDomain, uabi::XrcRelay,
      uabi::XrcTargetRequest, uabi::XrcTargetAnswer, uabi::XrcTargetEvent, uabi::ShareDevice,
      uabi::ImportDevice, uabi::LeaveDevice, uabi::ObjectRequest, uabi::ObjectAnswer>;
  for_each_of(OfPrograms{}, [&](const auto& message) {
    EXPECT_NE(refusal_of(message).find("it needs a program that Hello has attached"),
              std::string::npos)
        << uabi::Message{message}.index();
  });
}

TEST_F(RequestTable, RefusesRequestsOfAgentsAndIdsWithoutPortAndChannel) {
  EXPECT_NE(refusal_of(uabi::RegisterUmadAgent{}).find("it needs a port"), std::string::npos);
  EXPECT_NE(refusal_of(uabi::UnregisterUmadAgent{}).find("it needs a port"), std::string::npos);
  EXPECT_NE(refusal_of(uabi::CreateRdmaCmId{}).find("it needs a channel"), std::string::npos);
  EXPECT_NE(refusal_of(uabi::GetRdmaCmEvent{}).find("it needs a channel"), std::string::npos);
  EXPECT_NE(refusal_of(uabi::JoinOmniPathGroup{}).find("it needs a port"), std::string::npos);
  EXPECT_NE(refusal_of(uabi::LeaveOmniPathGroup{}).find("it needs a port"), std::string::npos);
  EXPECT_NE(refusal_of(uabi::SetOmniPathCapabilities{}).find("it needs a port"), std::string::npos);
}

/// After Hello.
TEST_F(RequestTable, RefusesACommandsRequestsOfAProgramAtItsHost) {
  for (const uabi::Message& message :
       {uabi::Message{uabi::Query{}}, uabi::Message{uabi::Down{}}, uabi::Message{uabi::Hello{}},
        uabi::Message{uabi::ListUmadDevices{}}}) {
    const auto socket = connected();
    ASSERT_TRUE(send(socket, uabi::Hello{.host = "h1"}));
    auto answer = socket.receive(Duration::seconds(10));
    while (answer && !answer->message.holds<uabi::InitialStateSent>()) {
      answer = socket.receive(Duration::seconds(10));
    }
    ASSERT_TRUE(answer) << answer.error().reason;
    ASSERT_TRUE(send(socket, message));
    EXPECT_NE(refusal(socket).find("attached to a host asks for something else"), std::string::npos)
        << message.index();
  }
}

/// A second channel would take the place of the first.
TEST_F(RequestTable, RefusesASecondChannelOnOneConnection) {
  const auto socket = connected();
  const uabi::OpenRdmaCm open{.version = uabi::kVersion, .host = "h1", .loopback = ""};
  ASSERT_TRUE(send(socket, open));
  const auto opened = socket.receive(Duration::seconds(10));
  ASSERT_TRUE(opened);
  EXPECT_TRUE(opened->message.holds<uabi::RdmaCmOpened>());
  ASSERT_TRUE(send(socket, open));
  EXPECT_NE(refusal(socket).find("has a channel already"), std::string::npos);
}

}  // namespace
}  // namespace weft::daemon
