// Connections that migrate between paths of a live fabric (IBTA vol 1 §17.2.8): by the second ports
// of both hosts, and by other LIDs of the same ports.

#include <gtest/gtest.h>

#include <thread>

#include "daemon/testing/live_program.h"
#include "host/control_socket.h"
#include "os/run_directory.h"

namespace weft::daemon {
namespace {

using testing::LiveFabric;
using testing::Program;
using A = hca::QpAttribute;

constexpr PortNumber kFirst{1};
constexpr PortNumber kSecond{2};

fabric::EndPoint host_end(std::uint32_t host, std::uint8_t port) {
  return {.kind = fabric::NodeKind::Host, .node = host, .hca = 0, .port = PortNumber{port}};
}
fabric::EndPoint switch_end(std::uint32_t number, std::uint8_t port) {
  return {.kind = fabric::NodeKind::Switch, .node = number, .hca = 0, .port = PortNumber{port}};
}

/// Two hosts that two switches join, which are not joined: no packet passes from one side to the
/// other.
fabric::Topology two_rails() {
  fabric::Topology topology;
  topology.hosts = {fabric::make_host("h1", 1, 2), fabric::make_host("h2", 1, 2)};
  topology.switches = {
      {"s1", 2},
      {"s2", 2}
  };
  for (std::uint32_t host = 0; host < 2; ++host) {
    for (std::uint8_t port = 1; port <= 2; ++port) {
      topology.links.push_back({.a = host_end(host, port),
                                .b = switch_end(port - 1U, static_cast<std::uint8_t>(host + 1)),
                                .rate_gbps = {},
                                .delay = {}});
    }
  }
  return topology;
}

Lid lid_at(const Program& program, PortNumber port) { return program.engine.port(port).lid; }

void modify(Program& program, const hca::QpAttributes& to, hca::QpAttributeMask mask) {
  const auto modified = program.process->modify_qp(*program.qp, to, mask);
  ASSERT_TRUE(modified) << modified.error().reason;
}

void rearm(Program& program, Lid dlid, PortNumber port, std::uint8_t path_bits = 0) {
  hca::QpAttributes to;
  to.alternate_address.dlid = dlid;
  to.alternate_address.source_path_bits = path_bits;
  to.alternate_port = port;
  to.alternate_timeout = TimeoutExponent{14};
  to.migration = hca::MigrationState::Rearm;
  modify(program, to, hca::QpAttributeMask{A::AlternatePath} | A::PathMigrationState);
}

void migrate(Program& program) {
  hca::QpAttributes to;
  to.migration = hca::MigrationState::Migrated;
  modify(program, to, A::PathMigrationState);
}

void send(Program& from, Program& to) {
  to.receive(4'096, 2'048);
  from.post(hca::WrOpcode::Send, 0, 2'048);
  EXPECT_EQ(from.wait().status, hca::WcStatus::Success);
  EXPECT_EQ(to.wait().status, hca::WcStatus::Success);
}

void exchange(Program& a, Program& b) {
  send(a, b);
  send(b, a);
}

void join(Program& a, Program& b) {
  a.connect(b.lid(), b.qp->number(), 8);
  b.connect(a.lid(), a.qp->number(), 8);
}

TEST(LivePathMigration, GoesToTheSecondPorts) {
  LiveFabric fabric{two_rails()};
  Program a{fabric.on("h1")};
  Program b{fabric.on("h2")};
  join(a, b);
  rearm(a, lid_at(b, kSecond), kSecond);
  rearm(b, lid_at(a, kSecond), kSecond);
  exchange(a, b);
  EXPECT_EQ(a.qp->query().migration, hca::MigrationState::Armed);
  EXPECT_EQ(b.qp->query().migration, hca::MigrationState::Armed);
  testing::fill(a.memory);
  migrate(a);
  exchange(a, b);
  EXPECT_EQ(b.qp->query().migration, hca::MigrationState::Migrated);
  EXPECT_EQ(b.qp->port(), kSecond);
  EXPECT_EQ(a.events.path_migrated.load(), 1);
  EXPECT_EQ(b.events.path_migrated.load(), 1);
  // And home again.
  for (Program* const program : {&a, &b}) {
    hca::QpAttributes to;
    to.migration = hca::MigrationState::Rearm;
    modify(*program, to, A::PathMigrationState);
  }
  exchange(a, b);
  migrate(b);
  exchange(b, a);
  EXPECT_EQ(a.qp->port(), kFirst);
  EXPECT_EQ(a.events.path_migrated.load(), 2);
}

/// One end's packets on its primary path are all lost.
TEST(LivePathMigration, HappensByItselfWhenPacketsAreLost) {
  fabric::Topology topology = two_rails();
  for (auto& host : topology.hosts) {
    host.hcas[0].ports[0].lmc = 1;
  }
  LiveFabric fabric{topology};
  Program a{fabric.on("h1")};
  Program b{fabric.on("h2")};
  join(a, b);
  rearm(a, lid_at(b, kSecond), kSecond);
  rearm(b, lid_at(a, kSecond), kSecond);
  exchange(a, b);
  ASSERT_EQ(a.qp->query().migration, hca::MigrationState::Armed);
  // In SQD a program may change the primary path: to one that ends nowhere.
  hca::QpAttributes to;
  to.state = hca::QpState::Sqd;
  modify(a, to, A::State);
  to.address.dlid = Lid{0x777};
  to.address.port = kFirst;
  modify(a, to, A::AddressVector);
  to.state = hca::QpState::Rts;
  modify(a, to, A::State);
  exchange(a, b);
  EXPECT_EQ(a.events.path_migrated.load(), 1);
  EXPECT_EQ(b.events.path_migrated.load(), 1);
  EXPECT_EQ(b.qp->port(), kSecond);
}

/// As `weft fault add` does.
void add_fault(const LiveFabric& fabric, std::string rule) {
  const host::ProcessOptions options = fabric.on("h1");
  auto socket = host::ControlSocket::connect(os::control_path(options.run, options.fabric));
  ASSERT_TRUE(socket);
  ASSERT_TRUE(socket->send(uabi::AddFault{.rule = std::move(rule)}));
  const auto answer = socket->receive(Duration::seconds(20));
  ASSERT_TRUE(answer);
  ASSERT_TRUE(answer->message.holds<uabi::Text>());
}

TEST(LivePathMigration, OutlivesALinkThatGoesDown) {
  LiveFabric fabric{two_rails()};
  Program a{fabric.on("h1")};
  Program b{fabric.on("h2")};
  join(a, b);
  rearm(a, lid_at(b, kSecond), kSecond);
  rearm(b, lid_at(a, kSecond), kSecond);
  exchange(a, b);
  add_fault(fabric, "down link=h1:1 for=60s");
  const Instant deadline = os::now() + Duration::seconds(20);
  while (a.engine.port(kFirst).state == hca::PortState::Active && os::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  exchange(a, b);
  exchange(b, a);
  EXPECT_EQ(a.events.path_migrated.load(), 1);
  EXPECT_EQ(b.events.path_migrated.load(), 1);
  EXPECT_EQ(a.qp->port(), kSecond);
  EXPECT_EQ(b.qp->port(), kSecond);
}

TEST(LivePathMigration, GoesToAnotherLidOfTheSamePorts) {
  fabric::Topology topology = *fabric::generate("fat-tree:4:2");
  for (auto& host : topology.hosts) {
    host.hcas[0].ports[0].lmc = 1;
  }
  LiveFabric fabric{topology};
  Program a{fabric.on("h1")};
  Program b{fabric.on("h8")};
  join(a, b);
  const auto other = [](const Program& program) { return Lid{program.lid().value() + 1}; };
  rearm(a, other(b), kFirst, 1);
  rearm(b, other(a), kFirst, 1);
  exchange(a, b);
  migrate(a);
  exchange(a, b);
  EXPECT_EQ(b.events.path_migrated.load(), 1);
  EXPECT_EQ(b.qp->query().address.dlid, other(a));
}

TEST(LivePathMigration, RefusesAPathToAnotherNode) {
  LiveFabric fabric{"star:3"};
  Program a{fabric.on("h1")};
  Program b{fabric.on("h2")};
  Program c{fabric.on("h3")};
  join(a, b);
  hca::QpAttributes to;
  to.alternate_address.dlid = c.lid();
  to.alternate_port = kFirst;
  EXPECT_FALSE(a.process->modify_qp(*a.qp, to, A::AlternatePath));
}

}  // namespace
}  // namespace weft::daemon
