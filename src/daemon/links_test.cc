// Links that take time, and timeouts that take less of it (docs/ARCHITECTURE.md, decisions 7 and
// 8). Times are lower bounds, which no busy machine breaks.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "daemon/testing/live_member.h"
#include "daemon/testing/live_program.h"
#include "fabric/link_model.h"

namespace weft::daemon {
namespace {

using testing::LiveFabric;
using testing::Member;
using testing::Program;

fabric::Topology timed(std::string_view kind, std::optional<double> rate_gbps, Duration delay) {
  fabric::Topology topology = *fabric::generate(kind);
  EXPECT_TRUE(fabric::apply({.rate_gbps = rate_gbps, .delay = delay}, topology));
  return topology;
}

void join(Program& a, Program& b) {
  a.connect(b.lid(), b.qp->number());
  b.connect(a.lid(), a.qp->number());
}

void fill(std::span<std::byte> bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
  }
}

TEST(Links, ADelayIsTakenEachWay) {
  constexpr Duration kDelay = Duration::microseconds(200);
  LiveFabric fabric{timed("pair", {}, kDelay)};
  Program a{fabric.on("h1")};
  Program b{fabric.on("h2")};
  join(a, b);
  for (int round = 0; round < 20; ++round) {
    for (const auto opcode : {hca::WrOpcode::RdmaWrite, hca::WrOpcode::RdmaRead}) {
      const Instant start = os::now();
      a.post(opcode, 0, 8, b.address(), b.region->rkey);
      EXPECT_EQ(a.wait().status, hca::WcStatus::Success);
      EXPECT_GE(os::now() - start, kDelay * 2);
    }
    b.receive(0, 64);
    const Instant start = os::now();
    a.post(hca::WrOpcode::Send, 0, 64);
    EXPECT_EQ(b.wait().status, hca::WcStatus::Success);
    EXPECT_GE(os::now() - start, kDelay);
    EXPECT_EQ(a.wait().status, hca::WcStatus::Success);
  }
}

TEST(Links, TheDelaysOfAllCablesAddUp) {
  constexpr Duration kDelay = Duration::milliseconds(1);
  LiveFabric fabric{timed("star:2", {}, kDelay)};
  Program a{fabric.on("h1")};
  Program b{fabric.on("h2")};
  join(a, b);
  const Instant start = os::now();
  a.post(hca::WrOpcode::RdmaWrite, 0, 8, b.address(), b.region->rkey);
  EXPECT_EQ(a.wait().status, hca::WcStatus::Success);
  EXPECT_GE(os::now() - start, kDelay * 4);
}

/// The programs do not poll: threads must wake up when something arrives.
TEST(Links, APacketArrivesThoughNobodyPolls) {
  LiveFabric fabric{timed("pair", {}, Duration::milliseconds(5))};
  Program a{fabric.on("h1")};
  Program b{fabric.on("h2")};
  join(a, b);
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the threads sleep by now
    const Instant start = os::now();
    a.post(hca::WrOpcode::RdmaWrite, 0, 8, b.address(), b.region->rkey);
    while (a.cq->size() == 0 && os::now() - start < Duration::seconds(20)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_GE(os::now() - start, Duration::milliseconds(10));
    EXPECT_EQ(a.wait().status, hca::WcStatus::Success);
  }
}

TEST(Links, ARateIsWhatALinkCarriesAtMost) {
  LiveFabric fabric{timed("pair", 0.1, {})};
  Program a{fabric.on("h1")};
  Program b{fabric.on("h2")};
  join(a, b);
  constexpr std::uint32_t kBytes = 1 << 20;
  fill(a.memory);
  const Instant start = os::now();
  a.post(hca::WrOpcode::RdmaWrite, 0, kBytes, b.address(), b.region->rkey);
  EXPECT_EQ(a.wait().status, hca::WcStatus::Success);
  EXPECT_GE(os::now() - start, fabric::LinkRate{100}.duration(kBytes));
  EXPECT_TRUE(std::ranges::equal(a.memory, b.memory));
  EXPECT_EQ(a.process->packets_under_way(), 0U);
}

/// Two hosts send to a third, whose link is the only slow one.
TEST(Links, SendersShareTheRateOfALinkThatBothCross) {
  fabric::Topology topology = *fabric::generate("star:3");
  topology.links[2].rate_gbps = 0.1;
  LiveFabric fabric{topology};
  Program a{fabric.on("h1")};
  Program b{fabric.on("h2")};
  Program c{fabric.on("h3")};
  Program d{fabric.on("h3")};
  join(a, c);
  join(b, d);
  constexpr std::uint32_t kBytes = 1 << 19;
  const auto write = [](Program& from, Program& to) {
    from.post(hca::WrOpcode::RdmaWrite, 0, kBytes, to.address(), to.region->rkey);
    EXPECT_EQ(from.wait().status, hca::WcStatus::Success);
  };
  const Instant start = os::now();
  std::thread other{[&] { write(b, d); }};
  write(a, c);
  other.join();
  EXPECT_GE(os::now() - start, fabric::LinkRate{100}.duration(2 * kBytes));
}

TEST(Links, WhatCrossesThemComesWholeAndInOrder) {
  LiveFabric fabric{timed("star:2", 2, Duration::microseconds(50))};
  Program a{fabric.on("h1")};
  Program b{fabric.on("h2")};
  join(a, b);
  fill(a.memory);
  constexpr std::size_t kHalf = 1 << 19;
  std::size_t at = 0;
  for (std::uint32_t bytes = 1; at + bytes <= kHalf; bytes = bytes * 3 + 1) {
    b.receive(at, bytes);
    a.post(hca::WrOpcode::Send, at, bytes);
    at += bytes;
  }
  for (std::size_t seen = 0; seen < at;) {
    const hca::Wc wc = b.wait();
    ASSERT_EQ(wc.status, hca::WcStatus::Success);
    seen += wc.byte_length;
  }
  EXPECT_TRUE(std::equal(a.memory.begin(), a.memory.begin() + static_cast<std::ptrdiff_t>(at),
                         b.memory.begin()));
  while (a.cq->size() != 0) {
    EXPECT_EQ(a.wait().status, hca::WcStatus::Success);
  }
}

TEST(Links, WithoutRateAndDelayNothingIsKept) {
  LiveFabric fabric{"star:2"};
  Program a{fabric.on("h1")};
  Program b{fabric.on("h2")};
  join(a, b);
  for (int round = 0; round < 100; ++round) {
    a.post(hca::WrOpcode::RdmaWrite, 0, 1 << 16, b.address(), b.region->rkey);
    EXPECT_EQ(a.process->packets_under_way(), 0U);
    EXPECT_EQ(a.wait().status, hca::WcStatus::Success);
  }
}

/// The peer's receive is acknowledged, though the program that owes it ends at once.
TEST(Links, WhatIsUnderWayArrivesThoughItsSenderEnds) {
  LiveFabric fabric{timed("pair", {}, Duration::milliseconds(20))};
  Program a{fabric.on("h1")};
  for (int round = 0; round < 3; ++round) {
    auto b = std::make_unique<Program>(fabric.on("h2"));
    hca::QpAttributes reset;
    reset.state = hca::QpState::Reset;
    EXPECT_TRUE(a.process->modify_qp(*a.qp, reset, hca::QpAttribute::State));
    join(a, *b);
    b->receive(0, 64);
    a.post(hca::WrOpcode::Send, 0, 64);
    EXPECT_EQ(b->wait().status, hca::WcStatus::Success);
    b.reset();
    EXPECT_EQ(a.wait().status, hca::WcStatus::Success);
  }
}

/// The retry timer does not count while the sender itself delays the packet.
TEST(Links, ARetryTimerCountsNothingWhileThePacketIsUnderWay) {
  constexpr Duration kDelay = Duration::milliseconds(40);
  LiveFabric fabric{timed("pair", {}, kDelay)};
  Program a{fabric.on("h1")};
  Program b{fabric.on("h2")};
  a.connect(b.lid(), b.qp->number(), 10, 1);  // two tries of 4 ms
  b.connect(a.lid(), a.qp->number());
  a.memory[0] = std::byte{7};
  const std::atomic_ref<std::byte> target{b.memory[0]};
  const Instant start = os::now();
  a.post(hca::WrOpcode::RdmaWrite, 0, 1, b.address(), b.region->rkey);
  while (os::now() - start < Duration::seconds(20)) {
    const hca::QpState state = a.qp->query().state;
    if (target.load() == std::byte{7}) {
      break;
    }
    ASSERT_EQ(state, hca::QpState::Rts);  // as it was before the packet came
    a.process->make_progress(*a.cq);
  }
  EXPECT_EQ(target.load(), std::byte{7});
  EXPECT_GE(os::now() - start, kDelay);
}

TEST(Links, AMulticastCopyTakesTheTimeOfItsWay) {
  constexpr Duration kDelay = Duration::milliseconds(5);
  const Gid mgid{0xFF12'401B'FFFF'0000, Guid{7}};
  LiveFabric fabric{timed("star:2", 10, kDelay)};
  Program a{fabric.on("h1")};
  Program b{fabric.on("h2")};
  const Member sender{a, mgid, Lid{0xC005}};
  const Member receiver{b, mgid, Lid{0xC005}};
  const auto send = [&](std::byte first) {
    a.memory[0] = first;
    sender.send();
    EXPECT_EQ(a.wait().status, hca::WcStatus::Success);
  };
  const Instant start = os::now();
  for (int i = 0; i < 60; ++i) {
    receiver.receive();
  }
  while (b.cq->size() == 0 && os::now() - start < Duration::seconds(20)) {
    b.process->make_progress(*b.cq);
    if (a.process->packets_under_way() == 0) {
      send(std::byte{1});  // lost until the members are known and lanes are open
    }
  }
  constexpr std::size_t kFirst = 4'096 + 40;  // behind the GRH
  const Instant sent = os::now();
  send(std::byte{2});
  const auto first = [&] { return std::atomic_ref{b.memory[kFirst]}.load(); };  // all share it
  while (first() != std::byte{2} && os::now() - start < Duration::seconds(20)) {
    EXPECT_EQ(b.wait().status, hca::WcStatus::Success);
  }
  EXPECT_EQ(first(), std::byte{2});
  EXPECT_GE(os::now() - sent, kDelay * 2);
}

/// Time until a WRITE to a destination that does not exist ends with retry exceeded.
Duration until_retry_exceeded(double time_scale, std::uint8_t timeout, std::uint8_t retries) {
  fabric::Topology topology = fabric::generate_pair();
  topology.time_scale = *fabric::time_scale_of(time_scale);
  LiveFabric fabric{topology};
  Program a{fabric.on("h1")};
  Program b{fabric.on("h2")};
  a.connect(b.lid(), Qpn{b.qp->number().value() + 5}, timeout, retries);
  const Instant start = os::now();
  a.post(hca::WrOpcode::RdmaWrite, 0, 8, b.address(), b.region->rkey);
  EXPECT_EQ(a.wait().status, hca::WcStatus::RetryExceeded);
  return os::now() - start;
}

/// 8.6 s by the specification.
TEST(Timeouts, AreAsMuchShorterAsTheTimeScaleSays) {
  EXPECT_LT(until_retry_exceeded(0.001, 18, 7), TimeoutExponent{18}.duration() * 8);
}

TEST(Timeouts, AreAsMuchLongerAsTheTimeScaleSays) {
  EXPECT_GE(until_retry_exceeded(10, 12, 1), TimeoutExponent{12}.duration() * 20);
}

}  // namespace
}  // namespace weft::daemon
