// Nodes that come and go while programs run.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "daemon/testing/live_program.h"
#include "host/control_socket.h"
#include "os/run_directory.h"

namespace weft::daemon {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using testing::LiveFabric;
using testing::Program;

constexpr Duration kWaitLimit = Duration::seconds(20);

/// Sends a request of `weft node`; returns the daemon's answer.
std::string change(const LiveFabric& fabric, std::string text) {
  const host::ProcessOptions options = fabric.on("h1");
  auto socket = host::ControlSocket::connect(os::control_path(options.run, options.fabric));
  EXPECT_TRUE(socket && socket->send(uabi::ChangeNode{.change = std::move(text)}));
  const auto received = socket->receive(kWaitLimit);
  if (!received) {
    return received.error().reason;
  }
  const auto* const refused = received->message.get_if<uabi::Refused>();
  return refused == nullptr ? "" : refused->reason;
}

bool comes_true(const std::function<bool()>& condition) {
  const Instant end = os::now() + kWaitLimit;
  while (!condition() && os::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return condition();
}

hca::WcStatus write(Program& a, hca::Qp& qp, const Program& b) {
  a.post(qp, hca::WrOpcode::RdmaWrite, 0, 64, b.address(), b.region->rkey);
  return a.wait().status;
}

/// h1, h2 and h3 on a switch with room.
[[nodiscard]] fabric::Topology roomy_star() {
  fabric::Topology topology = *fabric::generate_star(3);
  topology.switches.front().port_count = 8;
  return topology;
}

TEST(LiveNodes, ComeAndGoWhileOthersGoOn) {
  LiveFabric fabric{roomy_star(), true};
  Program a{fabric.on("h1")};
  Program b{fabric.on("h2")};
  a.connect(b.lid(), b.qp->number());
  b.connect(a.lid(), a.qp->number());
  EXPECT_EQ(write(a, *a.qp, b), hca::WcStatus::Success);

  EXPECT_EQ(change(fabric, "add host h9 link=s1:7"), "");
  EXPECT_EQ(write(a, *a.qp, b), hca::WcStatus::Success);
  Program c{fabric.on("h9")};
  EXPECT_TRUE(
      comes_true([&] { return c.engine.port(PortNumber{1}).state == hca::PortState::Active; }));
  a.connect(*a.bulk_qp, c.lid(), c.qp->number(), 14, 3);  // h1 may learn of h9's LID a bit later
  c.connect(a.lid(), a.bulk_qp->number());
  EXPECT_EQ(write(a, *a.bulk_qp, c), hca::WcStatus::Success);
  EXPECT_EQ(write(c, *c.qp, a), hca::WcStatus::Success);

  EXPECT_THAT(change(fabric, "remove h9"), HasSubstr("1 programs run on h9"));
  EXPECT_EQ(change(fabric, "remove h9 force"), "");
  EXPECT_TRUE(comes_true([&] { return c.events.device_fatal != 0; }));
  EXPECT_TRUE(comes_true([&] { return !c.events.reported_gone().empty(); }));
  EXPECT_THAT(c.events.reported_gone(),
              Contains(HasSubstr("the node was removed from the fabric")));
  EXPECT_EQ(write(a, *a.bulk_qp, c), hca::WcStatus::RetryExceeded);
  EXPECT_EQ(write(a, *a.qp, b), hca::WcStatus::Success);
  EXPECT_EQ(b.events.device_fatal, 0);

  EXPECT_EQ(change(fabric, "add host h9 link=s1:7"), "");
  Program again{fabric.on("h9")};
  EXPECT_TRUE(
      comes_true([&] { return again.engine.port(PortNumber{1}).state == hca::PortState::Active; }));
}

}  // namespace
}  // namespace weft::daemon
