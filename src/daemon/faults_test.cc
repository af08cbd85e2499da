// Faults of links on a live fabric (docs/ARCHITECTURE.md, decision 8): caused on purpose, seen,
// survived.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "daemon/testing/live_member.h"
#include "daemon/testing/live_program.h"
#include "fabric/fault_description.h"
#include "host/control_socket.h"
#include "host/lane_memory.h"
#include "host/tap_record.h"
#include "os/run_directory.h"
#include "os/shared_memory.h"
#include "ring/spsc_ring.h"

namespace weft::daemon {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::LiveFabric;
using testing::Member;
using testing::Program;

constexpr std::uint8_t kShort = 10;  // 4 ms
constexpr Duration kWaitLimit = Duration::seconds(20);

fabric::Topology faulty(std::string_view kind, std::initializer_list<std::string_view> rules) {
  fabric::Topology topology = *fabric::generate(kind);
  for (const std::string_view rule : rules) {
    const auto fault = fabric::read_fault(rule);
    EXPECT_TRUE(fault) << fault.error().reason;
    topology.faults.push_back(*fault);
  }
  EXPECT_TRUE(fabric::validate(topology));
  return topology;
}

void join(Program& a, Program& b, std::uint8_t timeout = kShort, std::uint8_t retries = 7) {
  a.connect(b.lid(), b.qp->number(), timeout, retries);
  b.connect(a.lid(), a.qp->number(), timeout, retries);
}

void write(Program& a, const Program& b, std::uint32_t bytes) {
  a.post(hca::WrOpcode::RdmaWrite, 0, bytes, b.address(), b.region->rkey);
}

/// Sends a request of the `weft` command; returns the answer, or the reason of a refusal.
std::string ask(const LiveFabric& fabric, const uabi::Message& message) {
  const host::ProcessOptions options = fabric.on("h1");
  auto socket = host::ControlSocket::connect(os::control_path(options.run, options.fabric));
  EXPECT_TRUE(socket);
  EXPECT_TRUE(socket->send(message));
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
    const auto& text = received->message.get<uabi::Text>();
    answer += text.text;
    if (text.is_last) {
      return answer;
    }
  }
}

json faults_of(const LiveFabric& fabric) {
  return json::parse(ask(fabric, uabi::Query{.kind = uabi::QueryKind::Faults}));
}
std::uint64_t hits(const LiveFabric& fabric, std::size_t rule = 0) {
  return faults_of(fabric).at(rule)["hit"];
}

/// A counter of every port, by the port's name.
std::map<std::string, std::uint64_t> counters(const LiveFabric& fabric, const char* name) {
  const json status = json::parse(ask(fabric, uabi::Query{.kind = uabi::QueryKind::Counters}));
  EXPECT_EQ(status["unattributed_packets"], 0);
  EXPECT_EQ(status["refused_counter_entries"], 0);
  std::map<std::string, std::uint64_t> values;
  for (const json& port : status["ports"]) {
    values[port["name"]] = port["counters"][name];
  }
  return values;
}

/// Port counters relative to now; bringing the fabric up has counted MADs.
class Since {
 public:
  explicit Since(const LiveFabric& fabric) : fabric_(fabric) {}

  std::uint64_t operator()(const char* name, const char* port) const {
    const auto& before = name == kSent ? sent_ : received_;
    return counters(fabric_, name)[port] - before.at(port);
  }
  static constexpr const char* kSent = "xmit_packets";
  static constexpr const char* kReceived = "rcv_packets";

 private:
  const LiveFabric& fabric_;
  std::map<std::string, std::uint64_t> sent_{counters(fabric_, kSent)};
  std::map<std::string, std::uint64_t> received_{counters(fabric_, kReceived)};
};

TEST(LinkFaults, ADroppedRequestIsSentAgainOnceTheTimeoutIsOver) {
  LiveFabric fabric{faulty("pair", {"drop opcode=rc-rdma-write-only count=1"})};
  const Since since{fabric};
  Program a{fabric.on("h1")};
  Program b{fabric.on("h2")};
  join(a, b);
  const Instant start = os::now();
  write(a, b, 8);
  EXPECT_EQ(a.wait().status, hca::WcStatus::Success);
  EXPECT_GE(os::now() - start, TimeoutExponent{kShort}.duration());
  EXPECT_EQ(hits(fabric), 1U);
  EXPECT_EQ(counters(fabric, "xmit_discards")["h1:1"], 1U);
  EXPECT_EQ(since(Since::kSent, "h1:1"), 1U);
  EXPECT_EQ(since(Since::kReceived, "h2:1"), 1U);
}

TEST(LinkFaults, ALostAcknowledgementIsAskedForAgain) {
  LiveFabric fabric{faulty("pair", {"drop opcode=rc-acknowledge out=h2:1 count=1"})};
  const Since since{fabric};
  Program a{fabric.on("h1")};
  Program b{fabric.on("h2")};
  join(a, b);
  write(a, b, 8);
  EXPECT_EQ(a.wait().status, hca::WcStatus::Success);
  EXPECT_EQ(hits(fabric), 1U);
  EXPECT_EQ(counters(fabric, "xmit_discards")["h2:1"], 1U);
  EXPECT_EQ(since(Since::kReceived, "h2:1"), 2U);
}

/// A QP whose number selects the same lane as that of `like`.
hca::Qp& beside(Program& program, const hca::Qp& like, std::vector<hca::Qp*>& made) {
  do {
    made.push_back(*program.process->create_qp(0, program.init));
  } while ((made.back()->number().value() - like.number().value()) % host::kLanesPerPair != 0);
  return *made.back();
}

/// Another QP keeps the lane busy, so it is never drained: a timer counts only if the loss of a
/// packet of this QP is reported.
class OnABusyLane : public ::testing::TestWithParam<std::pair<const char*, std::uint32_t>> {};

TEST_P(OnABusyLane, WhatWasLostIsSentAgain) {
  const auto& [rule, bytes] = GetParam();
  fabric::Topology topology = faulty("pair", {rule});
  ASSERT_TRUE(fabric::apply({.rate_gbps = {}, .delay = Duration::milliseconds(300)}, topology));
  LiveFabric fabric{topology};
  Program a{fabric.on("h1")};
  Program b{fabric.on("h2")};
  join(a, b);
  std::vector<hca::Qp*> made_a;
  std::vector<hca::Qp*> made_b;
  hca::Qp& other = beside(a, *a.qp, made_a);
  hca::Qp& peer = beside(b, *b.qp, made_b);
  a.connect(other, b.lid(), peer.number(), 0, 7);
  b.connect(peer, a.lid(), other.number(), 0, 7);
  write(a, b, bytes);
  const Instant start = os::now();
  bool is_done = false;
  for (Instant next = start; !is_done && os::now() - start < Duration::seconds(10);) {
    if (os::now() >= next) {
      a.post(other, hca::WrOpcode::RdmaWrite, 0, 8, b.address(), b.region->rkey);
      next = next + Duration::milliseconds(20);
    }
    a.process->make_progress(*a.cq);
    hca::Wc wc;
    while (a.cq->poll({&wc, 1}) != 0) {
      EXPECT_EQ(wc.status, hca::WcStatus::Success);
      is_done = is_done || wc.qpn == a.qp->number();
    }
  }
  EXPECT_TRUE(is_done);
  EXPECT_EQ(hits(fabric), 1U);
  for (hca::Qp* const qp : made_a) {
    EXPECT_TRUE(a.process->destroy_qp(0, *qp));
  }
  for (hca::Qp* const qp : made_b) {
    EXPECT_TRUE(b.process->destroy_qp(0, *qp));
  }
}

INSTANTIATE_TEST_SUITE_P(
    LinkFaults, OnABusyLane,
    ::testing::Values(std::pair{"drop opcode=rc-acknowledge out=h2:1 count=1", 8U},
                      std::pair{"drop opcode=rc-rdma-write-only count=1", 8U},
                      std::pair{"drop opcode=rc-rdma-write-last count=1", 8'192U}));

TEST(LinkFaults, ALinkThatLosesEverythingEndsInRetryExceeded) {
  LiveFabric fabric{faulty("pair", {"drop"})};
  const Since since{fabric};
  Program a{fabric.on("h1")};
  Program b{fabric.on("h2")};
  join(a, b, kShort, 2);
  write(a, b, 8);
  EXPECT_EQ(a.wait().status, hca::WcStatus::RetryExceeded);
  EXPECT_EQ(hits(fabric), 3U) << "sent, and sent twice again";
  EXPECT_EQ(since(Since::kReceived, "h2:1"), 0U);
}

TEST(LinkFaults, ADamagedPacketIsCountedWhereItArrivesAndSentAgain) {
  LiveFabric fabric{faulty("star:2", {"corrupt in=s1:1 count=1", "corrupt in=h2:1 count=2"})};
  const Since since{fabric};
  Program a{fabric.on("h1")};
  Program b{fabric.on("h2")};
  join(a, b);
  write(a, b, 8);
  EXPECT_EQ(a.wait().status, hca::WcStatus::Success);
  EXPECT_EQ(hits(fabric, 0), 1U);
  EXPECT_EQ(hits(fabric, 1), 2U);
  auto errors = counters(fabric, "rcv_errors");
  EXPECT_EQ(errors["s1:1"], 1U);
  EXPECT_EQ(errors["h2:1"], 2U);
  EXPECT_EQ(since(Since::kReceived, "s1:1"), 4U);
  EXPECT_EQ(since(Since::kReceived, "h2:1"), 3U) << "those with errors included";
}

/// All faults together: RC delivers everything once and in order, and trains are subject to rules
/// packet by packet.
TEST(LinkFaults, AReliableConnectionDeliversEverythingOnceAndInOrder) {
  LiveFabric fabric{faulty("star:2", {"drop p=0.02 seed=3", "corrupt p=0.01", "duplicate p=0.05",
                                      "reorder p=0.05 by=200us"})};
  Program a{fabric.on("h1")};
  Program b{fabric.on("h2")};
  join(a, b, 15);  // 134 ms: what a busy machine delays is not lost
  testing::fill(a.memory);
  constexpr std::uint32_t kBytes = 20'000;
  constexpr std::size_t kCount = 50;
  for (std::size_t i = 0; i < kCount; ++i) {
    b.receive(i * kBytes, kBytes);
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    a.post(hca::WrOpcode::Send, i * kBytes, kBytes);
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(b.wait().status, hca::WcStatus::Success);
    ASSERT_EQ(a.wait().status, hca::WcStatus::Success);
  }
  const auto end = a.memory.begin() + kCount * kBytes;
  EXPECT_TRUE(std::equal(a.memory.begin(), end, b.memory.begin()));
  a.post(hca::WrOpcode::RdmaRead, 0, kBytes * 10, b.address() + kBytes, b.region->rkey);
  EXPECT_EQ(a.wait().status, hca::WcStatus::Success);
  EXPECT_TRUE(
      std::equal(a.memory.begin(), a.memory.begin() + kBytes * 10, b.memory.begin() + kBytes));
  for (std::size_t rule = 0; rule < 4; ++rule) {
    EXPECT_GT(hits(fabric, rule), 0U) << rule;
  }
  const auto all = [&](const char* name) {
    std::uint64_t sum = 0;
    for (const auto& [port, count] : counters(fabric, name)) {
      sum += count;
    }
    return sum;
  };
  // The last acknowledgements may be under way while this reads.
  const Instant deadline = os::now() + Duration::seconds(5);
  while ((all("xmit_discards") != hits(fabric, 0) || all("rcv_errors") != hits(fabric, 1)) &&
         os::now() < deadline) {
  }
  EXPECT_EQ(all("xmit_discards"), hits(fabric, 0));
  EXPECT_EQ(all("rcv_errors"), hits(fabric, 1));
  EXPECT_EQ(a.cq->size() + b.cq->size(), 0U);
}

TEST(LinkFaults, DuplicatesAreDeliveredOnce) {
  LiveFabric fabric{faulty("pair", {"duplicate out=h1:1"})};
  const Since since{fabric};
  Program a{fabric.on("h1")};
  Program b{fabric.on("h2")};
  join(a, b, 14);
  for (int i = 0; i < 20; ++i) {
    b.receive(0, 64);
    a.post(hca::WrOpcode::Send, 0, 64);
    EXPECT_EQ(b.wait().status, hca::WcStatus::Success);
    EXPECT_EQ(a.wait().status, hca::WcStatus::Success);
  }
  EXPECT_GE(hits(fabric), 20U);
  EXPECT_EQ(b.cq->size(), 0U);
  EXPECT_EQ(since(Since::kReceived, "h2:1"), 2 * hits(fabric));
}

TEST(LinkFaults, APacketThatIsHeldBackIsOvertaken) {
  LiveFabric fabric{
      faulty("pair", {"reorder opcode=rc-rdma-write-only count=1 by=300ms out=h1:1"})};
  Program a{fabric.on("h1")};
  Program b{fabric.on("h2")};
  join(a, b, 20);
  const Instant start = os::now();
  a.memory[0] = std::byte{1};
  a.post(hca::WrOpcode::RdmaWrite, 0, 1, b.address(), b.region->rkey);
  a.post(hca::WrOpcode::RdmaWrite, 0, 1, b.address() + 1, b.region->rkey);
  // The second is out of sequence: a NAK, and both are sent again at once.
  EXPECT_EQ(a.wait().status, hca::WcStatus::Success);
  EXPECT_EQ(a.wait().status, hca::WcStatus::Success);
  EXPECT_LT(os::now() - start, Duration::milliseconds(300));
  EXPECT_EQ(b.memory[1], std::byte{1});
}

constexpr Lid kMlid{0xC005};
const Gid kMgid{0xFF12'401B'FFFF'0000, Guid{7}};

TEST(LinkFaults, ADatagramIsLostForGood) {
  LiveFabric fabric{faulty("pair", {"drop every=2 opcode=ud-*-immediate slid=1"})};
  Program a{fabric.on("h1")};
  Program b{fabric.on("h2")};
  const Member sender{a, kMgid, kMlid};
  const Member receiver{b, kMgid, kMlid};
  hca::AddressHandle* const ah = *a.engine.create_ah(
      *a.pd, {.dlid = b.lid(), .sl = {}, .port = PortNumber{1}, .is_global = false, .grh = {}});
  for (int i = 0; i < 20; ++i) {
    receiver.receive();
  }
  for (int i = 0; i < 20; ++i) {
    sender.send_to(*ah, receiver.qp->number(), hca::WrOpcode::SendWithImmediate);  // unlike a MAD
    EXPECT_EQ(a.wait().status, hca::WcStatus::Success) << "an unreliable sender learns of nothing";
  }
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(b.wait().status, hca::WcStatus::Success);
  }
  while (a.process->packets_under_way() != 0) {
    a.process->make_progress(*a.cq);
  }
  b.process->make_progress(*b.cq);
  EXPECT_EQ(b.cq->size(), 0U);
  EXPECT_EQ(hits(fabric), 10U);
  EXPECT_TRUE(a.engine.destroy_ah(*ah));
}

/// h2's link loses every second packet and damages every fourth; h3's doubles.
TEST(LinkFaults, AMulticastCopyIsSubjectToTheFaultsOfItsPath) {
  LiveFabric fabric{
      faulty("star:3", {"drop every=2 in=h2:1", "corrupt every=2 in=h2:1", "duplicate in=h3:1"})};
  Program a{fabric.on("h1")};
  Program b{fabric.on("h2")};
  Program c{fabric.on("h3")};
  const Member sender{a, kMgid, kMlid};
  const Member lossy{b, kMgid, kMlid};
  const Member doubling{c, kMgid, kMlid};
  for (int i = 0; i < 60; ++i) {
    lossy.receive();
    doubling.receive();
  }
  const Instant start = os::now();
  const auto send = [&](hca::WrOpcode opcode) {
    sender.send_to(*sender.ah, kMulticastQpn, opcode);
    EXPECT_EQ(a.wait().status, hca::WcStatus::Success);
    while (a.process->packets_under_way() != 0) {
      a.process->make_progress(*a.cq);
    }
  };
  std::size_t any = 0;
  const auto taken = [&](Program& program) {  // with an immediate value
    program.process->make_progress(*program.cq);
    std::size_t counted = 0;
    for (hca::Wc wc; program.cq->poll({&wc, 1}) != 0; ++any) {
      counted += wc.flags.has(hca::Completion::WithImmediate) ? 1 : 0;
    }
    return counted;
  };
  // Lost until the members are known and lanes are open.
  const auto reach = [&](Program& program) {
    any = 0;
    while (any == 0 && os::now() - start < kWaitLimit) {
      send(hca::WrOpcode::Send);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      EXPECT_EQ(taken(program), 0U);
    }
  };
  reach(b);
  reach(c);
  const std::uint64_t lost = hits(fabric, 0);
  const std::uint64_t damaged = hits(fabric, 1);
  constexpr int kCount = 8;
  for (int i = 0; i < kCount; ++i) {
    send(hca::WrOpcode::SendWithImmediate);
  }
  std::size_t at_b = 0;
  std::size_t at_c = 0;
  while ((at_b < kCount / 4U || at_c < 2U * kCount) && os::now() - start < kWaitLimit) {
    at_b += taken(b);
    at_c += taken(c);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // no more of them come
  EXPECT_EQ(at_b + taken(b), kCount / 4U);
  EXPECT_EQ(at_c + taken(c), 2U * kCount);
  EXPECT_EQ(hits(fabric, 0) - lost, kCount / 2U);
  EXPECT_EQ(hits(fabric, 1) - damaged, kCount / 4U);
  EXPECT_EQ(counters(fabric, "xmit_discards")["s1:2"], hits(fabric, 0));
  EXPECT_EQ(counters(fabric, "rcv_errors")["h2:1"], hits(fabric, 1));
}

TEST(LinkFaults, ComeAndGoWhileTheFabricRuns) {
  LiveFabric fabric{"pair"};
  Program a{fabric.on("h1")};
  Program b{fabric.on("h2")};
  join(a, b);
  write(a, b, 8);
  EXPECT_EQ(a.wait().status, hca::WcStatus::Success);
  EXPECT_EQ(faults_of(fabric).size(), 0U);
  EXPECT_EQ(ask(fabric, uabi::AddFault{.rule = "drop every=3 out=h1:1"}), "1");
  const Instant start = os::now();
  while (hits(fabric) < 3 && os::now() - start < kWaitLimit) {
    write(a, b, 8);
    EXPECT_EQ(a.wait().status, hca::WcStatus::Success);
  }
  const json fault = faults_of(fabric).at(0);
  EXPECT_GE(fault["hit"], 3);
  EXPECT_GE(fault["matched"], 9);
  EXPECT_EQ(fault["rule"], "drop every=3 out=h1:1");
  EXPECT_EQ(fault["links"][0]["from"], "h1:1");
  EXPECT_EQ(fault["links"][0]["to"], "h2:1");
  EXPECT_EQ(ask(fabric, uabi::ClearFaults{.number = 1}), "");
  EXPECT_EQ(ask(fabric, uabi::AddFault{.rule = "reorder after=1 count=1 by=1s opcode=*write*"}),
            "2");
  EXPECT_EQ(faults_of(fabric).size(), 1U);
  while (faults_of(fabric).at(0)["matched"] == 0 && os::now() - start < kWaitLimit) {
    write(a, b, 8);
    EXPECT_EQ(a.wait().status, hca::WcStatus::Success);
  }
  const Instant held_back_at_first = os::now();
  write(a, b, 8);
  write(a, b, 8);  // out of sequence: both are sent again and done while the first is held back
  EXPECT_EQ(a.wait().status, hca::WcStatus::Success);
  EXPECT_EQ(a.wait().status, hca::WcStatus::Success);
  const std::uint32_t under_way = a.process->packets_under_way();
  EXPECT_TRUE(under_way != 0 || os::now() - held_back_at_first > Duration::seconds(1));
  EXPECT_EQ(hits(fabric), 1U);
  EXPECT_EQ(ask(fabric, uabi::ClearFaults{}), "");
  EXPECT_EQ(faults_of(fabric).size(), 0U);
  constexpr int kEnough = 500;  // as on a link that never had faults
  int direct = 0;
  while (direct < kEnough && os::now() - start < kWaitLimit) {
    write(a, b, 8);
    direct = a.process->packets_under_way() == 0 ? direct + 1 : 0;
    EXPECT_EQ(a.wait().status, hca::WcStatus::Success);
  }
  EXPECT_EQ(direct, kEnough);
}

TEST(LinkFaults, ALinkThatIsDownForATimeTellsItsPortsAndComesBack) {
  LiveFabric fabric{"pair"};
  Program a{fabric.on("h1")};
  Program b{fabric.on("h2")};
  join(a, b, 17);  // 537 ms: enough retries for the time, which is long enough to be seen
  EXPECT_EQ(ask(fabric, uabi::AddFault{.rule = "down link=h1:1 for=1s"}), "1");
  const Instant start = os::now();
  const auto is_active = [&] {
    return a.engine.port(PortNumber{1}).state == hca::PortState::Active;
  };
  while (is_active() && os::now() - start < kWaitLimit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  write(a, b, 8);
  EXPECT_EQ(a.wait().status, hca::WcStatus::Success);
  EXPECT_GE(os::now() - start, Duration::milliseconds(900));
  EXPECT_TRUE(is_active());
  EXPECT_EQ(counters(fabric, "link_downed")["h1:1"], 1U);
  EXPECT_EQ(counters(fabric, "link_downed")["h2:1"], 1U);
  EXPECT_GE(counters(fabric, "xmit_discards")["h1:1"], 1U);
  EXPECT_EQ(faults_of(fabric).at(0)["has_ended"], true);
  EXPECT_EQ(hits(fabric), 1U);
}

TEST(LinkFaults, BadRulesAreRefusedWithWhatWouldWork) {
  LiveFabric fabric{"pair"};
  EXPECT_THAT(ask(fabric, uabi::AddFault{.rule = "lose"}), HasSubstr("KIND is drop, corrupt"));
  EXPECT_THAT(ask(fabric, uabi::AddFault{.rule = "drop out=s1:1"}),
              HasSubstr("no cabled port s1:1"));
  EXPECT_THAT(ask(fabric, uabi::ClearFaults{.number = 9}), HasSubstr("there is no fault 9"));
  EXPECT_THAT(ask(fabric, uabi::AddFault{.version = 1, .rule = "drop"}), HasSubstr("version"));
  EXPECT_EQ(faults_of(fabric).size(), 0U);
}

/// A capture of `port` as made by `weft capture`: number of packets sent and received there.
class Tap {
 public:
  Tap(const LiveFabric& fabric, const std::string& port) {
    const host::ProcessOptions options = fabric.on("h1");
    socket_ =
        std::move(*host::ControlSocket::connect(os::control_path(options.run, options.fabric)));
    EXPECT_TRUE(socket_.send(uabi::StartCapture{.port = port}));
    while (true) {
      auto received = socket_.receive(kWaitLimit);
      if (!received || received->message.holds<uabi::CaptureLive>()) {
        EXPECT_TRUE(received);
        return;
      }
      constexpr std::size_t kBytes = ring::ring_bytes(host::kTapRingCapacity);
      memory_.push_back(std::move(
          *os::map_shared(received->descriptors.at(0), os::Protection::ReadWrite, kBytes, kBytes)));
      rings_.emplace_back(memory_.back().bytes());
    }
  }
  struct Seen {
    int out{};
    int in{};
    bool operator==(const Seen&) const = default;
  };
  Seen take(wire::Opcode opcode) {
    Seen seen;
    for (auto& ring : rings_) {
      for (auto front = ring.front(); front.state == ring::Consumer<>::State::Record;
           ring.pop(), front = ring.front()) {
        host::TapRecord record;
        std::memcpy(&record, front.body.data(), sizeof record);
        if (front.body[sizeof record] == static_cast<std::byte>(opcode)) {
          ++(record.direction == host::TapDirection::Out ? seen.out : seen.in);
        }
      }
    }
    return seen;
  }

 private:
  host::ControlSocket socket_;
  std::vector<os::Mapping> memory_;
  std::vector<ring::Consumer<>> rings_;
};

TEST(LinkFaults, ACaptureShowsALostPacketWhereItWasSentOnly) {
  LiveFabric fabric{faulty("pair", {"drop opcode=rc-rdma-write-only count=2",
                                    "duplicate opcode=rc-acknowledge count=1 out=h2:1"})};
  Program a{fabric.on("h1")};
  Program b{fabric.on("h2")};
  join(a, b, 16);
  Tap sender{fabric, "h1"};
  Tap receiver{fabric, "h2"};
  write(a, b, 8);
  EXPECT_EQ(a.wait().status, hca::WcStatus::Success);
  EXPECT_EQ(sender.take(wire::Opcode::RcRdmaWriteOnly), (Tap::Seen{.out = 3, .in = 0}));
  EXPECT_EQ(receiver.take(wire::Opcode::RcRdmaWriteOnly), (Tap::Seen{.out = 0, .in = 1}));
}

}  // namespace
}  // namespace weft::daemon
