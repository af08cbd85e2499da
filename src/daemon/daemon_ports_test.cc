// Cables and ports that people change while programs run.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "daemon/testing/live_program.h"
#include "host/control_socket.h"
#include "os/run_directory.h"

namespace weft::daemon {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::LiveFabric;
using testing::Program;

constexpr Duration kWaitLimit = Duration::seconds(20);

/// Sends a request of the `weft` command; returns the answer, or the reason of a refusal.
std::string ask(const LiveFabric& fabric, const uabi::Message& message) {
  const host::ProcessOptions options = fabric.on("h1");
  auto socket = host::ControlSocket::connect(os::control_path(options.run, options.fabric));
  EXPECT_TRUE(socket && socket->send(message));
  std::string answer;
  while (true) {
    const auto received = socket->receive(kWaitLimit);
    if (!received) {
      ADD_FAILURE() << received.error().reason;
      return answer;
    }
    if (const auto* refused = received->message.get_if<uabi::Refused>()) {
      return refused->reason;
    }
    if (const auto* text = received->message.get_if<uabi::Text>()) {
      answer += text->text;
      if (text->is_last) {
        return answer;
      }
    }
  }
}

std::string change(const LiveFabric& fabric, std::string port, std::string words) {
  return ask(fabric, uabi::ChangePort{.port = std::move(port), .change = std::move(words)});
}

json port_status(const LiveFabric& fabric, std::string_view name) {
  const json status = json::parse(ask(fabric, uabi::Query{.kind = uabi::QueryKind::Counters}));
  for (const json& port : status["ports"]) {
    if (port["name"] == name) {
      return port;
    }
  }
  ADD_FAILURE() << "no port " << name;
  return {};
}

bool comes_true(const std::function<bool()>& condition) {
  const Instant end = os::now() + kWaitLimit;
  while (!condition() && os::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return condition();
}

void write(Program& a, const Program& b) {
  a.post(hca::WrOpcode::RdmaWrite, 0, 64, b.address(), b.region->rkey);
  EXPECT_EQ(a.wait().status, hca::WcStatus::Success);
}

TEST(LivePorts, APulledCableIsSeenByProgramsAndDataTakesAnotherWay) {
  LiveFabric fabric{"fat-tree:4:2"};
  Program a{fabric.on("h1")};
  Program b{fabric.on("h8")};
  a.connect(b.lid(), b.qp->number(), 14, 7);
  b.connect(a.lid(), a.qp->number(), 14, 7);
  const auto sent = [&](const std::string& port) -> std::uint64_t {
    return port_status(fabric, port)["counters"]["xmit_packets"];
  };
  const std::uint64_t mads = sent("s1:3");
  constexpr std::uint64_t kWrites = 1'000;  // far more than MADs meanwhile
  const auto write_many = [&] {
    for (std::uint64_t i = 0; i < kWrites; ++i) {
      write(a, b);
    }
  };
  write_many();
  const bool is_first_way = sent("s1:3") - mads >= kWrites;
  const std::string first = is_first_way ? "s1:3" : "s1:4";
  const std::string second = is_first_way ? "s1:4" : "s1:3";
  const std::uint64_t before = sent(second);

  EXPECT_EQ(change(fabric, first, "unplug"), "");
  EXPECT_EQ(port_status(fabric, first)["state"], "Down");
  EXPECT_TRUE(comes_true([&] {  // once the program has heard of it
    write_many();
    return sent(second) - before >= kWrites;
  }));
  EXPECT_EQ(port_status(fabric, first)["counters"]["link_downed"], 1);

  EXPECT_EQ(change(fabric, first, "plug"), "");
  EXPECT_TRUE(comes_true([&] { return port_status(fabric, first)["state"] == "Active"; }));
  write(a, b);
}

TEST(LivePorts, ADisabledPortTellsItsPrograms) {
  LiveFabric fabric{"star:2"};
  Program a{fabric.on("h1")};
  const auto has_state = [&](hca::PortState state) {
    return comes_true([&] { return a.engine.port(PortNumber{1}).state == state; });
  };
  EXPECT_TRUE(has_state(hca::PortState::Active));
  EXPECT_EQ(change(fabric, "s1:1", "disable"), "");
  EXPECT_TRUE(has_state(hca::PortState::Down));
  EXPECT_EQ(change(fabric, "s1:1", "enable"), "");
  EXPECT_TRUE(has_state(hca::PortState::Active));
}

TEST(LivePorts, AgreeOnWhatBothEndsAllowAndCarryDataAtThatRate) {
  LiveFabric fabric{"star:2"};
  EXPECT_EQ(port_status(fabric, "h1:1")["rate_mbps"], 0);  // as fast as memory
  EXPECT_EQ(change(fabric, "s1:1", "width=1x speed=sdr"), "");
  EXPECT_EQ(port_status(fabric, "h1:1")["rate_mbps"], 2'500);
  Program a{fabric.on("h1")};
  Program b{fabric.on("h2")};
  a.connect(b.lid(), b.qp->number(), 18, 7);
  b.connect(a.lid(), a.qp->number(), 18, 7);
  constexpr std::uint32_t kBytes = 1 << 20;
  const Instant start = os::now();
  a.post(hca::WrOpcode::RdmaWrite, 0, kBytes, b.address(), b.region->rkey);
  EXPECT_EQ(a.wait().status, hca::WcStatus::Success);
  EXPECT_GE(os::now() - start, Duration::nanoseconds(kBytes * 8 / 5 * 2));  // at 2.5 Gb/s
}

TEST(LivePorts, WithoutASubnetManagerWaitForOne) {
  LiveFabric fabric{*fabric::generate("star:2"), false};
  EXPECT_EQ(port_status(fabric, "h1:1")["state"], "Initialize");
  EXPECT_EQ(port_status(fabric, "h1:1")["lid"], 0);
  EXPECT_EQ(change(fabric, "h1:1", "arm"), "");
  EXPECT_EQ(port_status(fabric, "h1:1")["state"], "Armed");
  EXPECT_EQ(change(fabric, "h1:1", "active"), "");
  EXPECT_EQ(port_status(fabric, "h1:1")["state"], "Active");
}

TEST(LivePorts, SayWhatWouldWork) {
  LiveFabric fabric{"star:2"};
  EXPECT_THAT(change(fabric, "h1:1", "off"), HasSubstr("disable"));
  EXPECT_THAT(change(fabric, "h9", "down"), HasSubstr("h9"));
  EXPECT_THAT(change(fabric, "h1:1", "width=12x"), HasSubstr("h1:1: the port supports"));
  EXPECT_THAT(ask(fabric, uabi::ChangePort{.version = 1, .port = "h1", .change = "down"}),
              HasSubstr("version"));
}

}  // namespace
}  // namespace weft::daemon
