#include "daemon/daemon.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <new>
#include <numeric>
#include <thread>
#include <utility>

#include "daemon/client.h"
#include "daemon/testing/live_member.h"
#include "daemon/testing/live_program.h"
#include "hca/hca.h"
#include "host/control_socket.h"
#include "host/process.h"
#include "os/clock.h"
#include "os/run_directory.h"

namespace {

/// Counts allocations of this thread while set.
thread_local bool counts_allocations = false;
thread_local std::uint64_t allocations = 0;

}  // namespace

// Not inlined, because g++ would warn about a mismatched pair.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  allocations += counts_allocations ? 1 : 0;
  if (void* const memory = std::malloc(std::max<std::size_t>(bytes, 1))) {
    return memory;
  }
  throw std::bad_alloc{};
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace weft::daemon {
namespace {

using hca::QpAttribute;
using hca::QpState;
using testing::fill;
using testing::LiveFabric;
using testing::NoEvents;
using testing::Program;

TEST(Live, TwoProgramsSendWriteAndReadAcrossThePair) {
  LiveFabric fabric{"pair"};
  Program a{fabric.on("h1")};
  Program b{fabric.on("h2")};
  EXPECT_NE(a.lid(), b.lid());
  a.connect(b.lid(), b.qp->number());
  b.connect(a.lid(), a.qp->number());
  constexpr std::uint32_t kLong = 300'000;
  fill(std::span{a.memory}.first(kLong));
  b.receive(500'000, kLong);
  a.post(hca::WrOpcode::Send, 0, kLong);
  EXPECT_EQ(a.wait().status, hca::WcStatus::Success);
  const hca::Wc received = b.wait();
  EXPECT_EQ(received.status, hca::WcStatus::Success);
  EXPECT_EQ(received.byte_length, kLong);
  EXPECT_EQ(std::memcmp(a.memory.data(), b.memory.data() + 500'000, kLong), 0);
  a.post(hca::WrOpcode::RdmaWrite, 0, kLong, b.address(), b.region->rkey);
  EXPECT_EQ(a.wait().status, hca::WcStatus::Success);
  EXPECT_EQ(std::memcmp(a.memory.data(), b.memory.data(), kLong), 0);
  a.post(hca::WrOpcode::RdmaRead, 400'000, kLong, b.address(), b.region->rkey);
  EXPECT_EQ(a.wait().status, hca::WcStatus::Success);
  EXPECT_EQ(std::memcmp(a.memory.data() + 400'000, b.memory.data(), kLong), 0);
}

/// docs/ARCHITECTURE.md, decision 3: everything was made before, at the latest with the first
/// packets.
TEST(Live, TheDataPathOfPollingProgramsAllocatesNothing) {
  LiveFabric fabric{"pair"};
  Program a{fabric.on("h1")};
  Program b{fabric.on("h2")};
  a.connect(b.lid(), b.qp->number());
  b.connect(a.lid(), a.qp->number());
  const auto exchange = [&](std::uint32_t bytes) {
    b.receive(0, bytes);
    a.post(hca::WrOpcode::Send, 0, bytes);
    EXPECT_EQ(a.wait().status, hca::WcStatus::Success);
    EXPECT_EQ(b.wait().status, hca::WcStatus::Success);
    for (const auto opcode : {hca::WrOpcode::RdmaWrite, hca::WrOpcode::RdmaRead}) {
      a.post(opcode, 0, bytes, b.address(), b.region->rkey);
      EXPECT_EQ(a.wait().status, hca::WcStatus::Success);
    }
  };
  const auto exchanges = [&](int count) {
    for (int i = 0; i < count; ++i) {
      exchange(8);
      exchange(50'000);
    }
  };
  exchanges(50);
  counts_allocations = true;
  exchanges(500);
  counts_allocations = false;
  EXPECT_EQ(std::exchange(allocations, 0), 0U);
}

TEST(Live, AMulticastPacketAllocatesNothing) {
  LiveFabric fabric{"star:2"};
  Program a{fabric.on("h1")};
  Program b{fabric.on("h2")};
  const Gid mgid{0xFF12'401B'FFFF'0000, Guid{7}};
  const testing::Member sender{a, mgid, Lid{0xC005}};
  const testing::Member receiver{b, mgid, Lid{0xC005}};
  const Instant deadline = os::now() + Duration::seconds(20);
  receiver.receive();
  const auto send = [&] {
    sender.send();
    EXPECT_EQ(a.wait().status, hca::WcStatus::Success);
    b.process->make_progress(*b.cq);
  };
  while (b.cq->size() == 0 && os::now() < deadline) {
    send();  // lost until the members are known and lanes are open
  }
  const auto exchange = [&] {
    hca::Wc wc;
    while (b.cq->poll({&wc, 1}) != 0) {
    }
    receiver.receive();
    send();
    EXPECT_EQ(b.wait().status, hca::WcStatus::Success);
  };
  const Instant quiet = os::now() + Duration::milliseconds(50);
  while (os::now() < quiet) {
    b.process->make_progress(
        *b.cq);  // what was sent before finds no receive, which is put in words
  }
  exchange();
  counts_allocations = true;
  for (int i = 0; i < 200; ++i) {
    exchange();
  }
  counts_allocations = false;
  EXPECT_EQ(std::exchange(allocations, 0), 0U);
}

TEST(Live, AProgramTalksToItself) {
  LiveFabric fabric{"pair"};
  Program a{fabric.on("h1")};
  a.connect(a.lid(), a.qp->number());
  fill(std::span{a.memory}.first(5'000));
  a.post(hca::WrOpcode::RdmaWrite, 0, 5'000, a.address() + 10'000, a.region->rkey);
  EXPECT_EQ(a.wait().status, hca::WcStatus::Success);
  EXPECT_EQ(std::memcmp(a.memory.data(), a.memory.data() + 10'000, 5'000), 0);
}

TEST(Live, AProgramThatDoesNotPollIsServedAllTheSame) {
  LiveFabric fabric{"pair"};
  Program a{fabric.on("h1")};
  Program b{fabric.on("h2")};
  a.connect(b.lid(), b.qp->number());
  b.connect(a.lid(), a.qp->number());
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // its thread is asleep by now
    a.post(hca::WrOpcode::RdmaRead, 0, 8, b.address(), b.region->rkey);
    EXPECT_EQ(a.wait().status, hca::WcStatus::Success);
  }
}

/// A polling lease ends: SENDs, and the answers to its own requests, are then the thread's
/// business. Planted and found: a lease that is never stale.
TEST(Live, AProgramThatStoppedPollingIsServedAllTheSame) {
  LiveFabric fabric{"pair"};
  Program a{fabric.on("h1")};
  Program b{fabric.on("h2")};
  a.connect(b.lid(), b.qp->number());
  b.connect(a.lid(), a.qp->number());
  for (int round = 0; round < 5; ++round) {
    b.receive(0, 8);
    b.post(hca::WrOpcode::RdmaWrite, 64, 8, a.address() + 64, a.region->rkey);
    b.process->make_progress(*b.cq);  // the last that it does
    a.post(hca::WrOpcode::Send, 0, 8);
    EXPECT_EQ(a.wait().status, hca::WcStatus::Success);
    const Instant deadline = os::now() + Duration::seconds(20);
    while (b.cq->size() < 2 && os::now() < deadline) {
    }
    EXPECT_EQ(b.cq->size(), 2U) << "the end of its WRITE, and of its receive";
    EXPECT_EQ(b.wait().status, hca::WcStatus::Success);
    EXPECT_EQ(b.wait().status, hca::WcStatus::Success);
  }
}

/// Received data is acknowledged although the receiver's own requests fill the lane and it ends at
/// once.
TEST(Live, AcknowledgementsWaitForNobodysRequests) {
  constexpr std::uint32_t kBulk = (1U << 20) - 64;  // beside what is sent
  LiveFabric fabric{"pair"};
  Program a{fabric.on("h1")};
  for (int round = 0; round < 20; ++round) {
    Program b{fabric.on("h2")};
    hca::QpAttributes reset;
    reset.state = QpState::Reset;
    EXPECT_TRUE(a.process->modify_qp(*a.qp, reset, QpAttribute::State));
    EXPECT_TRUE(a.process->modify_qp(*a.bulk_qp, reset, QpAttribute::State));
    a.connect(b.lid(), b.qp->number());
    b.connect(a.lid(), a.qp->number());
    a.connect(*a.bulk_qp, b.lid(), b.bulk_qp->number(), 14, 7);
    b.connect(*b.bulk_qp, a.lid(), a.bulk_qp->number(), 14, 7);
    b.receive(0, 64);
    for (int i = 0; i < 16; ++i) {
      b.post(*b.bulk_qp, hca::WrOpcode::RdmaWrite, 64, kBulk, a.address() + 64, a.region->rkey);
    }
    std::thread sender{[&a] {
      a.post(hca::WrOpcode::Send, 0, 64);
      EXPECT_EQ(a.wait().status, hca::WcStatus::Success);
    }};
    hca::Wc wc = b.wait();
    while (wc.opcode != hca::WcOpcode::Receive && wc.status == hca::WcStatus::Success) {
      wc = b.wait();
    }
    EXPECT_EQ(wc.status, hca::WcStatus::Success);
    EXPECT_TRUE(b.process->destroy_qp(0, *b.qp));
    b.qp = *b.process->create_qp(0, b.init);
    sender.join();
  }
}

TEST(Live, RetriesEndWhenThePeerQpDoesNotExist) {
  LiveFabric fabric{"pair"};
  Program a{fabric.on("h1")};
  Program b{fabric.on("h2")};
  a.connect(b.lid(), Qpn{b.qp->number().value() + 5}, 10, 1);
  a.post(hca::WrOpcode::RdmaWrite, 0, 8, b.address(), b.region->rkey);
  EXPECT_EQ(a.wait().status, hca::WcStatus::RetryExceeded);
}

TEST(Live, RetriesEndWhenNoSuchProcessExists) {
  LiveFabric fabric{"pair"};
  Program a{fabric.on("h1")};
  a.connect(Lid{a.lid().value() + 1}, Qpn{(900U << 14) + 3}, 10, 1);
  a.post(hca::WrOpcode::RdmaWrite, 0, 8, 0, RKey{1});
  EXPECT_EQ(a.wait().status, hca::WcStatus::RetryExceeded);
}

TEST(Live, AKilledPeerEndsInRetryExceededAndHurtsNobodyElse) {
  int run[2];
  int ready[2];
  ASSERT_EQ(pipe(run), 0);
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();  // before any thread exists, as the thread sanitizer requires
  if (child == 0) {
    host::ProcessOptions options{
        .run = std::string(64, '\0'), .fabric = "test", .host = "h3", .limits = {}};
    options.run.resize(
        static_cast<std::size_t>(read(run[0], options.run.data(), options.run.size())));
    Program victim{options};
    victim.connect(Lid{1}, Qpn{(1U << 14)});
    const std::uint32_t told[2] = {victim.lid().value(), victim.qp->number().value()};
    static_cast<void>(!write(ready[1], told, sizeof told));
    pause();
    _exit(0);
  }
  LiveFabric fabric{"star:3"};
  const std::string directory = fabric.on("h3").run;
  ASSERT_EQ(write(run[1], directory.data(), directory.size()),
            static_cast<ssize_t>(directory.size()));
  std::uint32_t told[2]{};
  ASSERT_EQ(read(ready[0], told, sizeof told), static_cast<ssize_t>(sizeof told));
  Program a{fabric.on("h1")};
  Program b{fabric.on("h2")};
  Program c{fabric.on("h1")};
  a.connect(Lid{told[0]}, Qpn{told[1]}, 12, 2);
  b.connect(c.lid(), c.qp->number());
  c.connect(b.lid(), b.qp->number());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  a.post(hca::WrOpcode::RdmaWrite, 0, 8, 0, RKey{1});
  EXPECT_EQ(a.wait().status, hca::WcStatus::RetryExceeded);
  b.post(hca::WrOpcode::RdmaWrite, 0, 8, c.address(), c.region->rkey);
  EXPECT_EQ(b.wait().status, hca::WcStatus::Success);
}

/// Like a fatal HCA failure: posted work requests are flushed once, later ones too.
TEST(Live, TheEndOfTheFabricFlushesAllWorkAndIsToldOnce) {
  LiveFabric fabric{"pair"};
  Program a{fabric.on("h1")};
  Program b{fabric.on("h2")};
  a.connect(b.lid(), b.qp->number(), 10, 1);
  b.connect(a.lid(), a.qp->number());
  a.post(hca::WrOpcode::RdmaWrite, 0, 8, b.address(), b.region->rkey);
  EXPECT_EQ(a.wait().status, hca::WcStatus::Success);
  b.receive(0, 64);
  b.receive(64, 64);
  fabric.end();
  for (int receive = 0; receive < 2; ++receive) {
    EXPECT_EQ(b.wait().status, hca::WcStatus::WorkRequestFlushed);
  }
  while (a.events.device_fatal == 0 || b.events.device_fatal == 0) {
    std::this_thread::yield();  // ctest bounds it
  }
  EXPECT_EQ(a.qp->query().state, QpState::Err);
  a.post(hca::WrOpcode::RdmaWrite, 0, 8, b.address(), b.region->rkey);
  EXPECT_EQ(a.wait().status, hca::WcStatus::WorkRequestFlushed);
  for (Program* program : {&a, &b}) {
    const auto told = program->events.reported_gone();
    ASSERT_EQ(told.size(), 1U);
    EXPECT_NE(told[0].find("fabric test is gone"), std::string::npos) << told[0];
    EXPECT_NE(told[0].find("weft up --name test"), std::string::npos) << told[0];
    EXPECT_EQ(program->events.device_fatal, 1);
  }
}

TEST(Live, TheEndOfTheFabricFlushesASharedReceiveQueueToo) {
  LiveFabric fabric{"pair"};
  Program a{fabric.on("h1")};
  hca::SharedReceiveQueue* const srq = *a.engine.create_srq(*a.pd, 4, 1, 0);
  hca::QpInit init = a.init;
  init.srq = srq;
  hca::Qp* const qp = *a.process->create_qp(0, init);
  hca::Qp* const unused = *a.process->create_qp(0, init);
  a.connect(*qp, a.lid(), qp->number(), 14, 7);
  const hca::Sge sge{.address = a.address(), .length = 64, .lkey = a.region->lkey};
  for (std::uint64_t id = 1; id <= 3; ++id) {
    ASSERT_TRUE(srq->post({
        .wr_id = id, .sges = {&sge, 1}
    }));
  }
  EXPECT_TRUE(a.process->destroy_qp(0, *unused));
  fabric.end();
  for (std::uint64_t id = 1; id <= 3; ++id) {
    const hca::Wc wc = a.wait();
    EXPECT_EQ(wc.status, hca::WcStatus::WorkRequestFlushed);
    EXPECT_EQ(wc.wr_id, id);
    EXPECT_EQ(wc.qpn, qp->number());
  }
  EXPECT_TRUE(a.process->destroy_qp(0, *qp));
  EXPECT_TRUE(a.engine.destroy_srq(*srq));
}

/// Through the target QPs of its domain, which fail.
TEST(Live, TheEndOfTheFabricFlushesAnXrcSrqToo) {
  LiveFabric fabric{"pair"};
  Program a{fabric.on("h1")};
  hca::XrcDomain* const domain = *a.engine.open_xrc_domain();
  hca::SharedReceiveQueue* const srq =
      *a.process->create_xrc_srq(0, *a.pd, *domain, *a.init.recv_cq, 4, 1);
  hca::QpInit init;
  init.type = hca::QpType::XrcTarget;
  init.xrcd = domain;
  hca::Qp* const target = *a.process->create_qp(0, init);
  hca::QpAttributes attributes;
  attributes.state = QpState::Init;
  attributes.port = PortNumber{1};
  using A = hca::QpAttribute;
  ASSERT_TRUE(a.process->modify_qp(
      *target, attributes,
      hca::QpAttributeMask{A::State} | A::PKeyIndex | A::Port | A::RemoteAccess));
  const hca::Sge sge{.address = a.address(), .length = 64, .lkey = a.region->lkey};
  ASSERT_TRUE(srq->post({
      .wr_id = 3, .sges = {&sge, 1}
  }));
  fabric.end();
  const hca::Wc wc = a.wait();
  EXPECT_EQ(wc.status, hca::WcStatus::WorkRequestFlushed);
  EXPECT_EQ(wc.wr_id, 3U);
  EXPECT_EQ(wc.qpn, target->number());
  EXPECT_TRUE(a.process->destroy_qp(0, *target));
  EXPECT_TRUE(a.process->destroy_xrc_srq(0, *srq));
  EXPECT_TRUE(a.engine.close_xrc_domain(*domain));
}

TEST(Live, AProgramThatEndsLearnsOnceThatItsFabricWentFirst) {
  LiveFabric fabric{"pair"};
  NoEvents events;
  const auto process = std::move(*host::Process::open(fabric.on("h1"), events));  // no thread yet
  process->report_if_fabric_gone();
  EXPECT_TRUE(events.reported_gone().empty());
  fabric.end();
  process->report_if_fabric_gone();
  process->report_if_fabric_gone();
  EXPECT_EQ(events.reported_gone().size(), 1U);
}

TEST(Live, NothingNewBeginsAfterTheEndOfTheFabric) {
  LiveFabric fabric{"pair"};
  Program a{fabric.on("h1")};
  fabric.end();
  while (a.events.device_fatal == 0) {
    std::this_thread::yield();
  }
  EXPECT_EQ(a.process->create_qp(0, a.init).error().code, ErrorCode::Io);
  hca::QpAttributes to;  // a QP in RESET cannot move to the error state
  to.state = QpState::Init;
  to.port = PortNumber{1};
  const auto modified =
      a.process->modify_qp(*a.qp, to,
                           hca::QpAttributeMask{QpAttribute::State} | QpAttribute::PKeyIndex |
                               QpAttribute::Port | QpAttribute::RemoteAccess);
  ASSERT_FALSE(modified);
  EXPECT_NE(modified.error().reason.find("fabric test is gone"), std::string::npos);
  to.state = QpState::Reset;
  EXPECT_TRUE(a.process->modify_qp(*a.qp, to, QpAttribute::State)) << "what is there can be ended";
}

/// Sends `message` on a new connection; the reason of the refusal, after which the connection ends.
std::string refusal_of(const LiveFabric& fabric, const uabi::Message& message) {
  const auto socket = host::ControlSocket::connect(os::control_path(fabric.on("h1").run, "test"));
  EXPECT_TRUE(socket);
  EXPECT_TRUE(socket->send(message));
  const auto answer = socket->receive(Duration::seconds(10));
  EXPECT_TRUE(answer);
  const auto* const refused = answer ? answer->message.get_if<uabi::Refused>() : nullptr;
  EXPECT_NE(refused, nullptr);
  EXPECT_EQ(socket->receive(Duration::seconds(10)).error().code, ErrorCode::Refused);
  return refused != nullptr ? refused->reason : "";
}

std::string log_of(const LiveFabric& fabric) {
  std::ifstream file{os::fabric_directory(fabric.on("h1").run, "test") + "/log"};
  return {std::istreambuf_iterator<char>{file}, {}};
}

TEST(Daemon, NamesAClientThatBreaksTheProtocolAndTellsItWhy) {
  const LiveFabric fabric{"pair"};
  EXPECT_NE(refusal_of(fabric,
                       uabi::LaneClosed{
                           {0, 1}
  })
                .find("may not send"),
            std::string::npos);
  EXPECT_NE(log_of(fabric).find(fmt::format("process {} (", getpid())), std::string::npos);
  EXPECT_NE(log_of(fabric).find("1 messages that it may not send"), std::string::npos);
}

TEST(Daemon, LogsWhatOneProgramSaysOfAnotherAndWhoSaidIt) {
  LiveFabric fabric{"pair"};
  const Program a{fabric.on("h1")};
  const auto socket = host::ControlSocket::connect(os::control_path(fabric.on("h1").run, "test"));
  ASSERT_TRUE(socket->send(uabi::Hello{.host = "h2"}));
  ASSERT_TRUE(socket->send(uabi::ReportPeer{
      .peer = a.process->address(), .what = uabi::RecordFault::ForgedSource, .count = 12}));
  // The daemon answers in order.
  ASSERT_TRUE(socket->send(uabi::OpenLane{
      .peer = {0, 700}
  }));
  Result<host::Received> answer = socket->receive(Duration::seconds(10));
  while (answer && !answer->message.holds<uabi::NoSuchProcess>()) {
    answer = socket->receive(Duration::seconds(10));
  }
  ASSERT_TRUE(answer) << answer.error().reason;
  const std::string log = log_of(fabric);
  EXPECT_NE(log.find("h1 process"), std::string::npos);
  EXPECT_NE(log.find("12 records with a forged source address, says h2 process"), std::string::npos)
      << log;
}

TEST(Daemon, LetsAProcessHaveAFewConnectionsOnly) {
  const LiveFabric fabric{"pair"};
  std::vector<host::ControlSocket> open;
  for (unsigned i = 0; i < Requester::kMaxConnections; ++i) {
    open.push_back(*host::ControlSocket::connect(os::control_path(fabric.on("h1").run, "test")));
  }
  EXPECT_NE(refusal_of(fabric, uabi::Query{}).find("may have"), std::string::npos);
  open.clear();
}

TEST(Daemon, RefusesASecondOneButClearsWhatADeadOneLeft) {
  char pattern[] = "/tmp/weft-test-XXXXXX";
  const std::string run = mkdtemp(pattern);
  std::filesystem::create_directory(run + "/x");
  {
    std::ofstream{run + "/x/control"};
  }
  auto first = Daemon::create(
      {.run = run, .fabric = "x", .topology = fabric::generate_pair(), .lifeline = {}});
  ASSERT_TRUE(first) << first.error().reason;
  const auto second = Daemon::create(
      {.run = run, .fabric = "x", .topology = fabric::generate_pair(), .lifeline = {}});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::Exists);
  std::filesystem::remove_all(run);
}

}  // namespace
}  // namespace weft::daemon
