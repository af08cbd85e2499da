// Addresses that programs carry for their hosts (uabi::CarryAddresses), with a whole daemon.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ip_address.h"
#include "daemon/testing/live_fabric.h"
#include "host/control_socket.h"
#include "os/run_directory.h"

namespace weft::daemon {
namespace {

using ::testing::HasSubstr;
using testing::LiveFabric;

constexpr Duration kWaitLimit = Duration::seconds(20);
constexpr std::uint16_t kTcp = 0x106;  // RDMA_PS_TCP
constexpr std::uint32_t kNotHere = EADDRNOTAVAIL;

class LiveAddresses : public ::testing::Test {
 protected:
  [[nodiscard]] host::ControlSocket connected() const {
    return std::move(*host::ControlSocket::connect(os::control_path(fabric_.on("h1").run, "test")));
  }
  template <class Answer>
  static Answer ask(const host::ControlSocket& socket, const uabi::Message& request) {
    EXPECT_TRUE(socket.send(request));
    auto received = socket.receive(kWaitLimit);
    EXPECT_TRUE(received) << received.error().reason;
    auto* const answer = received ? received->message.template get_if<Answer>() : nullptr;
    EXPECT_NE(answer, nullptr);
    return answer == nullptr ? Answer{} : std::move(*answer);
  }
  static uabi::CarryAddresses of_h1(std::vector<std::string> addresses) {
    return {
        .version = uabi::kVersion, .host = "h1", .pkey = 0xFFFF, .addresses = std::move(addresses)};
  }
  static void carry(const host::ControlSocket& socket, std::vector<std::string> addresses) {
    EXPECT_TRUE(ask<uabi::Text>(socket, of_h1(std::move(addresses))).is_last);
  }
  std::string refusal(const uabi::CarryAddresses& request) const {
    return ask<uabi::Refused>(connected(), request).reason;
  }
  /// The errno of binding to it on h1 by RDMA-CM.
  std::uint32_t bind(std::string_view text) const {
    const auto socket = connected();
    ask<uabi::RdmaCmOpened>(
        socket, uabi::OpenRdmaCm{.version = uabi::kVersion, .host = "h1", .loopback = ""});
    const auto id = ask<uabi::RdmaCmAnswer>(
        socket, uabi::CreateRdmaCmId{.port_space = kTcp, .qp_type = 2, .uid = 1});
    const IpAddress address = parse_ip_address(text).value();
    uabi::BindRdmaCmId request{.id = id.value, .address = {}};
    request.address.family = address.is_v4() ? uabi::RdmaCmFamily::Ip4 : uabi::RdmaCmFamily::Ip6;
    std::ranges::copy(address.octets(), request.address.octets.begin());
    return ask<uabi::RdmaCmAnswer>(socket, request).error;
  }

  LiveFabric fabric_{"pair"};
};

TEST_F(LiveAddresses, AreTheHostsWhileTheConnectionStands) {  // R-IPOIB-21
  EXPECT_EQ(bind("10.77.0.1"), kNotHere);
  {
    const auto carrier = connected();
    carry(carrier, {"10.77.0.1/16", "fd77:1b::1/64"});
    EXPECT_EQ(bind("10.77.0.1"), 0U);
    EXPECT_EQ(bind("fd77:1b::1"), 0U);
    carry(carrier, {"10.77.0.9/16"});
    EXPECT_EQ(bind("10.77.0.1"), kNotHere);
    EXPECT_EQ(bind("10.77.0.9"), 0U);
    EXPECT_THAT(refusal(of_h1({"10.77.0.2/16"})),
                HasSubstr("another program carries this interface"));
  }
  for (int turn = 0; turn < 200 && bind("10.77.0.9") == 0; ++turn) {
    usleep(10'000);
  }
  EXPECT_EQ(bind("10.77.0.9"), kNotHere);
  EXPECT_EQ(bind("127.77.0.1"), 0U);  // its own it keeps
  carry(connected(), {"10.77.0.2/16"});
}

TEST_F(LiveAddresses, AreRefusedInWords) {
  auto request = of_h1({"10.77.0.1/16"});
  request.version = 1;
  EXPECT_THAT(refusal(request), HasSubstr("version"));
  request = of_h1({"10.77.0.1/16"});
  request.host = "h9";
  EXPECT_THAT(refusal(request), HasSubstr("h9"));
  EXPECT_THAT(refusal(of_h1({"nowhere"})), HasSubstr("nowhere"));
  request = of_h1({"10.77.0.1/16"});
  request.port_of_host = 1;
  EXPECT_THAT(refusal(request), HasSubstr("has no port 1"));
  request = of_h1({"10.77.0.1/16"});
  request.pkey = 0x8005;
  EXPECT_THAT(refusal(request), HasSubstr("no member of the partition 0x8005"));
  EXPECT_THAT(ask<uabi::Refused>(connected(), uabi::TellNeighbor{"10.77.0.2", {}}).reason,
              HasSubstr("carries no interface"));
  EXPECT_THAT(ask<uabi::Refused>(connected(), uabi::HoldGroups{}).reason,
              HasSubstr("carries no interface"));
}

/// Of the program that carries the interface, whose table of neighbours is the only one.
TEST_F(LiveAddresses, OfNeighborsAreAskedOfTheProgram) {  // R-IPOIB-28
  const auto carrier = connected();
  carry(carrier, {"10.77.0.1/16"});
  const auto user = connected();
  ask<uabi::RdmaCmOpened>(
      user, uabi::OpenRdmaCm{.version = uabi::kVersion, .host = "h1", .loopback = ""});
  const auto id = ask<uabi::RdmaCmAnswer>(
      user, uabi::CreateRdmaCmId{.port_space = kTcp, .qp_type = 2, .uid = 1});
  uabi::ResolveRdmaCmAddress request{.id = id.value, .timeout_ms = 5'000};
  request.destination.family = uabi::RdmaCmFamily::Ip4;
  const IpAddress neighbor = parse_ip_address("10.77.0.2").value();
  std::ranges::copy(neighbor.octets(), request.destination.octets.begin());
  ASSERT_EQ(ask<uabi::RdmaCmAnswer>(user, request).error, 0U);
  auto question = carrier.receive(kWaitLimit);
  ASSERT_TRUE(question) << question.error().reason;
  const auto* const asked = question->message.get_if<uabi::AskNeighbor>();
  ASSERT_NE(asked, nullptr);
  EXPECT_EQ(asked->neighbor, "10.77.0.2");
  EXPECT_LE(asked->within_ms, 5'000U);
  EXPECT_GT(asked->within_ms, 3'000U);
  const Gid gid{kDefaultGidPrefix, Guid{0x1234}};
  ASSERT_TRUE(carrier.send(uabi::TellNeighbor{"10.77.0.2", gid}));
  const auto state = [&] {
    return ask<uabi::RdmaCmIdState>(user, uabi::QueryRdmaCmId{.id = id.value});
  };
  for (int turn = 0; turn < 200 && state().dgid != gid; ++turn) {
    usleep(10'000);
  }
  EXPECT_EQ(state().dgid, gid);
}

}  // namespace
}  // namespace weft::daemon
