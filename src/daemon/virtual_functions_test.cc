// Programs of virtual functions, on a live fabric.

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

using testing::LiveFabric;
using testing::Program;

constexpr Duration kWaitLimit = Duration::seconds(20);

/// Sends a request of `weft vf`; returns the reason of a refusal.
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

/// Whether it holds before long.
template <class Condition>
bool eventually(Condition holds) {
  const Instant end = os::now() + kWaitLimit;
  while (!holds() && os::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return holds();
}

bool becomes_active(const Program& program) {
  return eventually(
      [&] { return program.engine.port(PortNumber{1}).state == hca::PortState::Active; });
}

void connect(Program& a, Program& b) {
  a.connect(b.lid(), b.qp->number());
  b.connect(a.lid(), a.qp->number());
}

hca::WcStatus write(Program& a, const Program& b, std::size_t offset) {
  a.post(hca::WrOpcode::RdmaWrite, offset, 4096, b.address() + offset, b.region->rkey);
  return a.wait().status;
}

TEST(LiveVirtualFunctions, ReachOthersAndAreReachedBehindOneLid) {
  LiveFabric fabric{*fabric::generate_star(2)};
  ASSERT_EQ(change(fabric, "add vf v1 of=h1"), "");
  ASSERT_EQ(change(fabric, "add vf v2 of=h1"), "");
  Program h1{fabric.on("h1")};
  Program h2{fabric.on("h2")};
  Program v1{fabric.on("v1")};
  Program v2{fabric.on("v2")};
  ASSERT_TRUE(becomes_active(v1));
  ASSERT_TRUE(becomes_active(v2));
  EXPECT_EQ(v1.lid(), h1.lid());
  EXPECT_EQ(v2.lid(), h1.lid());
  EXPECT_NE(v1.engine.port(PortNumber{1}).gids, v2.engine.port(PortNumber{1}).gids);

  connect(v1, h2);  // across the fabric
  testing::fill(v1.memory);
  EXPECT_EQ(write(v1, h2, 0), hca::WcStatus::Success);
  EXPECT_EQ(h2.memory[100], v1.memory[100]);
  EXPECT_EQ(write(h2, v1, 8192), hca::WcStatus::Success);

  connect(v2, h1);  // inside one port
  EXPECT_EQ(write(v2, h1, 0), hca::WcStatus::Success);
  EXPECT_EQ(write(h1, v2, 8192), hca::WcStatus::Success);
}

TEST(LiveVirtualFunctions, HaveNoDataQpWithTheWellKnownQKey) {  // T-SRI-3
  LiveFabric fabric{*fabric::generate_star(2)};
  ASSERT_EQ(change(fabric, "add vf v1 of=h1"), "");
  Program h1{fabric.on("h1")};
  Program v1{fabric.on("v1")};
  ASSERT_TRUE(becomes_active(v1));
  const auto init_with = [](Program& program, QKey qkey) {
    hca::QpInit init = program.init;
    init.type = hca::QpType::Ud;
    hca::Qp& qp = **program.process->create_qp(0, init);
    hca::QpAttributes to;
    to.state = hca::QpState::Init;
    to.port = PortNumber{1};
    to.qkey = qkey;
    auto done = program.process->modify_qp(qp, to,
                                           hca::QpAttributeMask{hca::QpAttribute::State} |
                                               hca::QpAttribute::PKeyIndex |
                                               hca::QpAttribute::Port | hca::QpAttribute::QKey);
    EXPECT_TRUE(program.process->destroy_qp(0, qp));
    return done;
  };
  EXPECT_TRUE(init_with(v1, QKey{0x1111}));
  const auto refused = init_with(v1, kGsiQKey);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::InvalidArgument);
  EXPECT_THAT(refused.error().reason, ::testing::HasSubstr("belongs to QP1"));
  EXPECT_TRUE(init_with(h1, kGsiQKey));
  ASSERT_EQ(change(fabric, "set vf v1 trust=on"), "");
  EXPECT_TRUE(eventually([&] { return init_with(v1, kGsiQKey).has_value(); }));
}

TEST(LiveVirtualFunctions, TakenAwayLoseTheirDeviceAndTheOthersGoOn) {
  LiveFabric fabric{*fabric::generate_star(2)};
  ASSERT_EQ(change(fabric, "add vf v1 of=h1"), "");
  ASSERT_EQ(change(fabric, "add vf v2 of=h1"), "");
  Program h2{fabric.on("h2")};
  Program v1{fabric.on("v1")};
  Program v2{fabric.on("v2")};
  ASSERT_TRUE(becomes_active(v1));
  ASSERT_TRUE(becomes_active(v2));
  connect(v2, h2);
  EXPECT_EQ(write(v2, h2, 0), hca::WcStatus::Success);
  EXPECT_NE(change(fabric, "remove v1"), "");
  EXPECT_EQ(change(fabric, "remove v1 force"), "");
  EXPECT_TRUE(eventually([&] { return v1.events.device_fatal != 0; }));
  EXPECT_EQ(v1.events.device_fatal, 1);
  EXPECT_EQ(v2.events.device_fatal, 0);
  EXPECT_EQ(write(v2, h2, 0), hca::WcStatus::Success);
  EXPECT_EQ(write(h2, v2, 4096), hca::WcStatus::Success);
}

TEST(LiveVirtualFunctions, MoveToAnotherHostWithTheirPrograms) {
  LiveFabric fabric{*fabric::generate_star(3)};
  ASSERT_EQ(change(fabric, "add vf v1 of=h1"), "");
  Program h2{fabric.on("h2")};
  Program h3{fabric.on("h3")};
  Program v1{fabric.on("v1")};
  ASSERT_TRUE(becomes_active(v1));
  const auto gids = v1.engine.port(PortNumber{1}).gids;
  const Lid before = v1.lid();
  v1.connect(h2.lid(), h2.qp->number(), 10, 2);
  h2.connect(v1.lid(), v1.qp->number(), 10, 2);
  EXPECT_EQ(write(h2, v1, 0), hca::WcStatus::Success);

  ASSERT_EQ(change(fabric, "move vf v1 of=h3"), "");
  EXPECT_TRUE(eventually([&] { return v1.lid() != before; }));
  ASSERT_TRUE(becomes_active(v1));
  // After the attributes that it is about:
  EXPECT_TRUE(eventually([&] { return v1.events.lid_change != 0; }));
  EXPECT_EQ(v1.lid(), h3.lid());
  EXPECT_EQ(v1.engine.port(PortNumber{1}).gids, gids);
  EXPECT_EQ(v1.events.lid_change, 1);
  EXPECT_EQ(write(h2, v1, 0), hca::WcStatus::RetryExceeded);  // its path ends where v1 was

  v1.connect(*v1.bulk_qp, h2.lid(), h2.bulk_qp->number(), 14, 7);
  h2.connect(*h2.bulk_qp, v1.lid(), v1.bulk_qp->number(), 14, 7);
  testing::fill(v1.memory);
  v1.post(*v1.bulk_qp, hca::WrOpcode::RdmaWrite, 0, 4096, h2.address(), h2.region->rkey);
  EXPECT_EQ(v1.wait().status, hca::WcStatus::Success);
  EXPECT_EQ(h2.memory[100], v1.memory[100]);
  h2.post(*h2.bulk_qp, hca::WrOpcode::RdmaWrite, 0, 4096, v1.address() + 8192, v1.region->rkey);
  EXPECT_EQ(h2.wait().status, hca::WcStatus::Success);
}

TEST(LiveVirtualFunctions, KeepTheirQpnsWhileProgramsRun) {
  LiveFabric fabric{*fabric::generate_star(3)};
  ASSERT_EQ(change(fabric, "add vf v1 of=h1"), "");
  ASSERT_EQ(change(fabric, "add vf w1 of=h3"), "");
  {
    const Program v1{fabric.on("v1")};
    EXPECT_THAT(change(fabric, "move vf v1 of=h3"), ::testing::HasSubstr("the numbers of its QPs"));
  }
  EXPECT_EQ(change(fabric, "move vf v1 of=h3"), "");  // by other slots
  Program v1{fabric.on("v1")};
  Program w1{fabric.on("w1")};
  ASSERT_TRUE(becomes_active(v1));
  ASSERT_TRUE(becomes_active(w1));
  EXPECT_EQ(v1.lid(), w1.lid());
  connect(v1, w1);
  EXPECT_EQ(write(v1, w1, 0), hca::WcStatus::Success);
  EXPECT_EQ(write(w1, v1, 8192), hca::WcStatus::Success);
  for (const char* text : {"move vf v1 of=h3", "move vf v1 of=s1:1", "move vf v1 of=w1:1",
                           "move vf h1 of=h3", "move vf v1 of=h9", "add vf v9 of=v1:1"}) {
    EXPECT_NE(change(fabric, text), "") << text;
  }
}

}  // namespace
}  // namespace weft::daemon
