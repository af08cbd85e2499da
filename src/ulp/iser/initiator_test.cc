// Endpoints and sessions: how they come, and above all how they end.

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "ulp/iser/testing/world.h"

namespace weft::iser {
namespace {

using testing::PduLog;
using testing::World;

// T-ISER-2.
TEST(IserEndpoint, PollTellsConnectedNotYetAndEnded) {
  World world;
  const auto live = world.initiator->connect_endpoint("1", {}, false);
  ASSERT_TRUE(live);
  EXPECT_EQ(world.initiator->poll_endpoint(*live, Duration::milliseconds(100)),
            PollResult::Connected);
  const auto nobody = world.initiator->connect_endpoint("nobody", {}, false);
  ASSERT_TRUE(nobody);
  const Instant before = world.environment.now();
  EXPECT_EQ(world.initiator->poll_endpoint(*nobody, Duration::milliseconds(100)),
            PollResult::NotYet);
  EXPECT_EQ(world.environment.now() - before, Duration::milliseconds(100));
  core::Work meanwhile{world.environment, core::WorkContext::UnboundWorkQueue, 0,
                       [&] { world.initiator->disconnect_endpoint(*nobody); }};
  meanwhile.queue(Duration::milliseconds(10));
  EXPECT_EQ(world.initiator->poll_endpoint(*nobody, Duration::milliseconds(100)),
            PollResult::Failed);
  meanwhile.cancel_and_wait();
}

TEST(IserEndpoint, WhoWaitsLearnsThatNobodyAnswers) {
  World world;
  const auto nobody = world.initiator->connect_endpoint("nobody", {}, true);
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().code, ErrorCode::Io);
  world.refuses = true;
  EXPECT_FALSE(world.initiator->connect_endpoint("1", {}, true));
  world.environment.advance(Duration::milliseconds(10));
  EXPECT_EQ(world.initiator->connections(), 0U);
}

// T-ISER-3.
TEST(IserEndpoint, BindingAfterTheEndBeganIsInvalid) {
  World world;
  PduLog log;
  const auto endpoint = world.initiator->connect_endpoint("1", {}, true);
  ASSERT_TRUE(endpoint);
  Session* const session = world.initiator->create_session(*endpoint, {});
  SessionConnection* const connection = world.initiator->create_connection(*session, 0);
  ASSERT_NE(connection, nullptr);
  EXPECT_EQ(world.initiator->create_connection(*session, 0), nullptr);
  EXPECT_TRUE(world.initiator->find(*endpoint)->begin_termination("test"));
  const auto bound = world.initiator->bind(*connection, *endpoint, true, log);
  ASSERT_FALSE(bound);
  EXPECT_EQ(bound.error().code, ErrorCode::InvalidArgument);
  world.initiator->disconnect_endpoint(*endpoint);
  const auto gone = world.initiator->bind(*connection, *endpoint, true, log);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, ErrorCode::InvalidArgument);
  EXPECT_EQ(world.initiator->create_session(*endpoint, {}), nullptr);
}

// R-ISER-4: what is bound is stopped first, so that no connection is left that nobody stops.
TEST(IserEndpoint, AConnectionThatIsBoundIsBoundToAnotherAfterItsStop) {
  World world;
  PduLog log;
  const EndpointId first = world.connect(log);
  const auto second = world.initiator->connect_endpoint("1", {}, true);
  ASSERT_TRUE(second);
  PduLog other;
  const auto refused = world.initiator->bind(*world.connection, *second, true, other);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::InvalidArgument);
  EXPECT_EQ(&world.link(), world.initiator->find(first));
  world.initiator->stop(*world.connection, StopFlag::Recover);
  EXPECT_TRUE(world.initiator->bind(*world.connection, *second, true, other));
  EXPECT_EQ(&world.link(), world.initiator->find(*second));
  world.initiator->disconnect_endpoint(first);
  world.environment.advance(Duration::milliseconds(50));
  EXPECT_EQ(world.initiator->connections(), 1U);
  EXPECT_EQ(log.losses, 1U);
  EXPECT_EQ(other.losses, 0U);
  world.initiator->stop(*world.connection, StopFlag::Terminate);
}

TEST(IserEndpoint, WhatWasStartedWaitsForItsStop) {
  World world;
  PduLog log;
  const EndpointId endpoint = world.connect(log);
  world.login(log);
  world.initiator->disconnect_endpoint(endpoint);
  world.environment.advance(Duration::milliseconds(50));
  EXPECT_EQ(log.losses, 1U);
  EXPECT_EQ(world.initiator->connections(), 1U);
  world.initiator->stop(*world.connection, StopFlag::Terminate);
  world.environment.advance(Duration::milliseconds(1));
  EXPECT_EQ(world.initiator->connections(), 0U);
  EXPECT_EQ(world.initiator->last_stop(), StopFlag::Terminate);
  world.initiator->stop(*world.connection, StopFlag::Terminate);
  EXPECT_EQ(log.losses, 1U);
}

TEST(IserEndpoint, TerminatingTwiceDisconnectsOnce) {
  World world;
  PduLog log;
  world.connect(log);
  world.login(log);
  Connection& link = world.link();
  EXPECT_TRUE(link.begin_termination("first"));
  EXPECT_FALSE(link.begin_termination("second"));
  link.terminate("third");
  EXPECT_EQ(link.state(), ConnectionState::Down);
  EXPECT_EQ(link.reason(), "first");
  EXPECT_EQ(log.losses, 1U);
  world.initiator->stop(*world.connection, StopFlag::Recover);
  EXPECT_EQ(world.initiator->last_stop(), StopFlag::Recover);
}

// R-ISER-12: RDMA-CM's events as it reports them, to connections that are up and that become so.
TEST(IserEndpoint, EveryEventThatEndsAConnectionEndsIt) {
  for (const CmEvent event : testing::kEndingEvents) {
    for (const bool is_up : {false, true}) {
      World world;
      const auto endpoint = world.initiator->connect_endpoint("1", {}, is_up);
      ASSERT_TRUE(endpoint);
      Connection& link = *world.initiator->find(*endpoint);
      EXPECT_EQ(link.state(), is_up ? ConnectionState::Up : ConnectionState::Pending);
      world.cm->longest_step = Duration{};  // so that it overtakes what makes the connection
      world.cm->report_all(0, event);
      EXPECT_TRUE(
          world.environment.wait_until([&] { return link.state() == ConnectionState::Down; },
                                       world.environment.now() + Duration::seconds(2)))
          << std::to_underlying(event);
      world.initiator->disconnect_endpoint(*endpoint);
      world.environment.advance(Duration::milliseconds(50));
      EXPECT_EQ(world.initiator->connections(), 0U) << std::to_underlying(event);
    }
  }
}

// part of T-ISER-4.
TEST(IserEndpoint, ADeviceThatGoesDuringIoLeavesNothing) {
  World world;
  PduLog log;
  world.connect(log);
  world.login(log);
  Connection& link = world.link();
  std::vector<std::vector<std::byte>> memory(8, std::vector<std::byte>(65'536));
  std::vector<std::unique_ptr<Task>> tasks;
  for (auto& octets : memory) {
    tasks.push_back(std::make_unique<Task>());
    world.set_up(*tasks.back(), true, 0, octets);
    ASSERT_TRUE(link.transmit(*tasks.back()));
  }
  const auto busy = link.cleanup_task(*tasks.front());
  ASSERT_FALSE(busy);
  EXPECT_EQ(busy.error().code, ErrorCode::Busy);
  world.cm->longest_step = Duration{};
  world.cm->remove_device(0);
  world.environment.wait_until([&] { return log.losses != 0; }, Instant::never());
  EXPECT_EQ(link.state(), ConnectionState::Down);
  link.free_resources();
  link.free_resources();
  for (const auto& task : tasks) {
    EXPECT_TRUE(link.cleanup_task(*task));
    EXPECT_FALSE(link.initialise_task(*task));
    EXPECT_FALSE(link.transmit(*task));
  }
  const core::Device& device = world.network.host(0).device();
  EXPECT_EQ(device.resource_count(core::ResourceKind::Qp), 0U);
  EXPECT_EQ(device.resource_count(core::ResourceKind::Mr), 0U);
  EXPECT_EQ(device.resource_count(core::ResourceKind::Pd), 0U);
  world.initiator->stop(*world.connection, StopFlag::Terminate);
}

// T-ISER-4. R-ISER-6: a stop while the device goes, which in kernels takes the state's lock; here
// the one thread that waits in one lets the other go on.
TEST(IserEndpoint, ADeviceIsUnregisteredDuringIoAndAStopBesideIt) {
  for (const bool stops_first : {false, true}) {
    World world;
    PduLog log;
    world.connect(log);
    world.login(log);
    Connection& link = world.link();
    std::vector<std::vector<std::byte>> memory(8, std::vector<std::byte>(65'536));
    std::vector<std::unique_ptr<Task>> tasks;
    for (auto& octets : memory) {
      tasks.push_back(std::make_unique<Task>());
      world.set_up(*tasks.back(), true, 0, octets);
      ASSERT_TRUE(link.transmit(*tasks.back()));
    }
    world.cm->longest_step = Duration{};
    bool was_removed = false;
    core::Work removal{world.environment, core::WorkContext::UnboundWorkQueue, 0, [&] {
                         world.network.host(0).unregister_device();
                         was_removed = true;
                       }};
    removal.queue();
    if (stops_first) {
      world.initiator->stop(*world.connection, StopFlag::Recover);
    }
    world.environment.wait_until([&] { return was_removed && log.losses != 0; },
                                 world.environment.now() + Duration::seconds(20));
    ASSERT_TRUE(was_removed);
    EXPECT_EQ(log.losses, 1U);
    EXPECT_LT(log.came.size(), tasks.size());  // those that were not answered fail with it
    const core::Device& device = world.network.host(0).device();
    EXPECT_EQ(device.resource_count(core::ResourceKind::Qp), 0U);
    EXPECT_EQ(device.resource_count(core::ResourceKind::Mr), 0U);
    EXPECT_EQ(device.resource_count(core::ResourceKind::Pd), 0U);
    Connection* const left = world.connection->connection();
    ASSERT_EQ(left == nullptr, stops_first) << "what is stopped is released";
    if (left != nullptr) {
      left->free_resources();
      left->free_resources();
      for (const auto& task : tasks) {
        EXPECT_TRUE(left->cleanup_task(*task));
      }
    }
    world.initiator->stop(*world.connection, StopFlag::Terminate);
    world.initiator->stop(*world.connection, StopFlag::Terminate);
    EXPECT_EQ(log.losses, 1U);
  }
}

}  // namespace
}  // namespace weft::iser
