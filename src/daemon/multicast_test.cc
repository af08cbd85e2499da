#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "daemon/testing/live_fabric.h"
#include "daemon/testing/live_program.h"
#include "os/clock.h"

/// Which QPs a multicast packet reaches where hosts have several ports and HCAs.
namespace weft::daemon {
namespace {

using hca::QpAttribute;
using hca::QpAttributeMask;
using testing::NoEvents;

constexpr Lid kMlid{0xC010};
constexpr QKey kQKey{0x1234};
constexpr Duration kWaitLimit = Duration::seconds(10);
constexpr std::uint32_t kBytes = 16;
constexpr std::uint32_t kBufferBytes = 40 + kBytes;

Gid group_gid() { return Gid{0xFF12'4000'0000'0000, Guid{0x10}}; }

fabric::EndPoint host_port(std::uint32_t host, std::uint8_t hca, std::uint8_t port) {
  return {.kind = fabric::NodeKind::Host, .node = host, .hca = hca, .port = PortNumber{port}};
}

/// h2 has two HCAs of two ports. Switch s1 joins h1, h2:1 and h2/weft1:1; s2 joins h3 and h2:2.
fabric::Topology two_islands() {
  fabric::Topology topology;
  topology.hosts = {fabric::make_host("h1"), fabric::make_host("h2", 2, 2),
                    fabric::make_host("h3")};
  topology.switches = {
      {.name = "s1", .port_count = 4},
      {.name = "s2", .port_count = 4}
  };
  const auto cable = [&](const fabric::EndPoint& host, std::uint32_t node, std::uint8_t port) {
    topology.links.push_back({
        .a = host,
        .b = {.kind = fabric::NodeKind::Switch, .node = node, .hca = 0, .port = PortNumber{port}},
        .rate_gbps = std::nullopt,
        .delay = {}
    });
  };
  cable(host_port(0, 0, 1), 0, 1);
  cable(host_port(1, 0, 1), 0, 2);
  cable(host_port(1, 1, 1), 0, 3);
  cable(host_port(2, 0, 1), 1, 1);
  cable(host_port(1, 0, 2), 1, 2);
  return topology;
}

/// A UD QP on one port of one HCA, with a CQ and memory of its own.
class Endpoint {
 public:
  Endpoint(host::Process& process, std::uint32_t hca, std::uint8_t port)
      : process_(process), hca_(hca), port_(port), engine_(*process.hcas()[hca].engine) {
    pd_ = *engine_.allocate_pd();
    std::memcpy(&address_, &start_, sizeof address_);
    region_ = *engine_.register_memory(*pd_, address_, memory_, hca::Access::LocalWrite);
    cq_ = *process_.create_cq(hca_, 64);
    hca::QpInit init;
    init.type = hca::QpType::Ud;
    init.pd = pd_;
    init.send_cq = init.recv_cq = cq_;
    init.capabilities = {.max_send_wr = 16,
                         .max_recv_wr = 16,
                         .max_send_sge = 1,
                         .max_recv_sge = 1,
                         .max_inline_data = 0};
    qp_ = *process_.create_qp(hca, init);
  }
  ~Endpoint() {
    if (is_attached_) {
      EXPECT_TRUE(process_.detach_multicast(hca_, *qp_, group_gid(), kMlid));
    }
    EXPECT_TRUE(process_.destroy_qp(hca_, *qp_));
  }
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  [[nodiscard]] Qpn number() const { return qp_->number(); }

  void start() {
    hca::QpAttributes to;
    to.port = PortNumber{port_};
    to.qkey = kQKey;
    const auto modify = [&](hca::QpState state, QpAttributeMask mask) {
      to.state = state;
      const auto modified = process_.modify_qp(*qp_, to, mask | QpAttribute::State);
      ASSERT_TRUE(modified) << modified.error().reason;
    };
    modify(hca::QpState::Init,
           QpAttributeMask{QpAttribute::PKeyIndex} | QpAttribute::Port | QpAttribute::QKey);
    modify(hca::QpState::Rtr, {});
    modify(hca::QpState::Rts, QpAttribute::SqPsn);
    for (int i = 0; i < 16; ++i) {
      post_receive();
    }
  }

  void attach() {
    const auto attached = process_.attach_multicast(hca_, *qp_, group_gid(), kMlid);
    ASSERT_TRUE(attached) << attached.error().reason;
    is_attached_ = true;
  }

  /// Its number, by which its copies are known.
  std::uint32_t send() {
    static std::uint32_t sent{};
    hca::AddressVector to;
    to.dlid = kMlid;
    to.port = PortNumber{port_};
    to.is_global = true;
    to.grh.dgid = group_gid();
    hca::AddressHandle* const ah = *engine_.create_ah(*pd_, to);
    const hca::Sge from{.address = address_, .length = kBytes, .lkey = region_->lkey};
    hca::SendWr wr;
    wr.opcode = hca::WrOpcode::SendWithImmediate;
    wr.immediate = ++sent;
    wr.sges = {&from, 1};
    wr.ah = ah;
    wr.remote_qpn = kMulticastQpn;
    wr.remote_qkey = kQKey;
    EXPECT_TRUE(process_.post_send(*qp_, wr));
    EXPECT_TRUE(engine_.destroy_ah(*ah));
    return sent;
  }

  /// How many copies of that datagram have arrived so far.
  std::size_t copies(std::uint32_t datagram) {
    process_.make_progress(*cq_);
    std::array<hca::Wc, 16> completions;
    for (std::size_t i = 0, taken = cq_->poll(completions); i < taken; ++i) {
      EXPECT_EQ(completions[i].status, hca::WcStatus::Success);
      if (completions[i].opcode == hca::WcOpcode::Receive) {
        ++copies_[completions[i].immediate];
        post_receive();
      }
    }
    return copies_[datagram];
  }

 private:
  void post_receive() {
    const hca::Sge into{.address = address_, .length = kBufferBytes, .lkey = region_->lkey};
    EXPECT_TRUE(qp_->post_recv({
        .wr_id = 1, .sges = {&into, 1}
    }));
  }

  host::Process& process_;
  std::uint32_t hca_;
  std::uint8_t port_;
  hca::Hca& engine_;
  std::array<std::byte, 4096> memory_{};
  std::byte* start_{memory_.data()};
  std::uint64_t address_{};
  hca::ProtectionDomain* pd_{};
  hca::MemoryRegion* region_{};
  hca::CompletionQueue* cq_{};
  hca::Qp* qp_{};
  bool is_attached_{};
  std::map<std::uint32_t, std::size_t> copies_;
};

using Counts = std::vector<std::size_t>;

/// How many copies of that datagram each gets, once nothing has come for a while.
Counts settled(const std::vector<Endpoint*>& endpoints, std::uint32_t datagram) {
  Counts counts;
  Instant changed = os::now();
  while (os::now() - changed < Duration::milliseconds(30)) {
    Counts fresh;
    for (Endpoint* endpoint : endpoints) {
      fresh.push_back(endpoint->copies(datagram));
    }
    if (fresh != counts) {
      counts = fresh;
      changed = os::now();
    }
    std::this_thread::yield();
  }
  return counts;
}

/// Number of copies of one datagram at each endpoint, once the group is known everywhere; earlier
/// datagrams are repeated.
Counts copies_of_one(Endpoint& sender, const std::vector<Endpoint*>& endpoints,
                     const Counts& expected) {
  const Instant deadline = os::now() + kWaitLimit;
  while (os::now() < deadline) {
    const Counts copies = settled(endpoints, sender.send());
    if (std::ranges::equal(copies, expected, std::greater_equal{})) {
      return copies;
    }
  }
  return {};
}

/// The same of a datagram that is sent to somebody.
std::size_t copies_in_time(Endpoint& member, std::uint32_t datagram) {
  const Instant deadline = os::now() + kWaitLimit;
  while (member.copies(datagram) == 0 && os::now() < deadline) {
    std::this_thread::yield();
  }
  return member.copies(datagram);
}

class LiveMulticast : public ::testing::Test {
 protected:
  std::unique_ptr<host::Process> open(const std::string& name) {
    auto process = host::Process::open(fabric_.on(name), events_);
    EXPECT_TRUE(process) << process.error().reason;
    return std::move(*process);
  }

  testing::LiveFabric fabric_{two_islands()};
  NoEvents events_;
  std::unique_ptr<host::Process> h1_ = open("h1");
  std::unique_ptr<host::Process> h2_ = open("h2");
  std::unique_ptr<host::Process> h3_ = open("h3");
};

TEST_F(LiveMulticast, ReachesTheMembersOnThePortsThatTheTreeReaches) {
  Endpoint on_s1{*h1_, 0, 1};
  Endpoint on_s2{*h3_, 0, 1};
  Endpoint first_port{*h2_, 0, 1};
  Endpoint first_port_too{*h2_, 0, 1};
  Endpoint first_port_of_no_group{*h2_, 0, 1};
  Endpoint second_port{*h2_, 0, 2};
  Endpoint second_hca{*h2_, 1, 1};
  const std::vector all{&first_port, &first_port_too, &first_port_of_no_group, &second_port,
                        &second_hca};
  on_s1.start();
  on_s2.start();
  for (Endpoint* endpoint : all) {
    endpoint->start();
    if (endpoint != &first_port_of_no_group) {
      endpoint->attach();
    }
  }
  const Counts by_s1{1, 1, 0, 0, 1};
  const Counts by_s2{0, 0, 0, 1, 0};
  EXPECT_EQ(copies_of_one(on_s1, all, by_s1), by_s1);
  EXPECT_EQ(copies_of_one(on_s2, all, by_s2), by_s2);
}

TEST_F(LiveMulticast, WhatIsSentFirstWaitsForTheLanesToTheMembers) {
  Endpoint known{*h1_, 0, 1};
  Endpoint member{*h2_, 0, 1};
  known.start();
  member.start();
  member.attach();
  ASSERT_EQ(copies_of_one(known, {&member}, {1}), Counts{1});  // the group is known
  const auto late = open("h1");                                // with the members, but no lane
  Endpoint sender{*late, 0, 1};
  sender.start();
  EXPECT_EQ(copies_in_time(member, sender.send()), 1U);
}

TEST_F(LiveMulticast, WhatWasPostedLeavesBeforeItsQpIsDestroyed) {
  Endpoint known{*h1_, 0, 1};
  Endpoint member{*h2_, 0, 1};
  known.start();
  member.start();
  member.attach();
  ASSERT_EQ(copies_of_one(known, {&member}, {1}), Counts{1});
  const auto late = open("h1");
  std::uint32_t datagram = 0;
  {
    Endpoint sender{*late, 0, 1};
    sender.start();
    datagram = sender.send();
  }
  EXPECT_EQ(copies_in_time(member, datagram), 1U);
}

TEST_F(LiveMulticast, ReachesTheOtherMembersOfTheSendersHostAndNotTheSender) {
  Endpoint sender{*h2_, 0, 1};
  Endpoint same_port{*h2_, 0, 1};
  Endpoint other_port{*h2_, 0, 2};
  Endpoint other_hca{*h2_, 1, 1};
  ASSERT_EQ(sender.number(), other_hca.number()) << "QPNs are counted by HCA";
  const std::vector all{&sender, &same_port, &other_port, &other_hca};
  for (Endpoint* endpoint : all) {
    endpoint->start();
    endpoint->attach();
  }
  const Counts expected{0, 1, 0, 1};
  EXPECT_EQ(copies_of_one(sender, all, expected), expected);
}

TEST_F(LiveMulticast, AQpThatWasAttachedBeforeItHadAPortTakesPartByItsPort) {
  Endpoint sender{*h3_, 0, 1};
  Endpoint second_port{*h2_, 0, 2};
  sender.start();
  second_port.attach();
  second_port.start();
  EXPECT_EQ(copies_of_one(sender, {&second_port}, {1}), Counts{1});
}

/// A QP is reachable as soon as its attachment can be observed in any way, as in hardware.
TEST(LiveMulticastOfAPair, ReachesWhoHasJustAttached) {
  const testing::LiveFabric fabric{"pair"};
  NoEvents events;
  const auto h1 = *host::Process::open(fabric.on("h1"), events);
  const auto h2 = *host::Process::open(fabric.on("h2"), events);
  Endpoint sender{*h1, 0, 1};
  sender.start();
  for (int round = 0; round < 40; ++round) {
    Endpoint member{*h2, 0, 1};
    member.start();
    member.attach();
    const std::uint32_t datagram = sender.send();
    const Instant deadline = os::now() + kWaitLimit;
    while (member.copies(datagram) == 0) {
      static_cast<void>(sender.copies(datagram));
      ASSERT_LT(os::now(), deadline) << "of datagram " << round;
    }
  }
}

}  // namespace
}  // namespace weft::daemon
