// Commands with their data between both ends: what goes on the wire, and what is in memory after.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "ulp/iser/testing/world.h"

namespace weft::iser {
namespace {

using testing::PduLog;
using testing::World;
using wire::iscsi::ScsiResponse;

std::vector<std::byte> pattern(std::size_t bytes, std::uint64_t seed) {
  Random random{seed};
  std::vector<std::byte> octets(bytes);
  for (std::byte& octet : octets) {
    octet = static_cast<std::byte>(random.below(256));
  }
  return octets;
}

// Both ways at several sizes, in scattered pieces; part of T-ISER-1: against our own target.
TEST(IserData, WhatIsWrittenIsReadAgain) {
  World world;
  PduLog log;
  world.connect(log);
  world.login(log);
  for (const std::size_t bytes : {512UL, 4096UL, 65'536UL, 524'288UL}) {
    auto written = pattern(bytes, bytes);
    Task write;
    world.set_up(write, true, 3, written, 4'608);
    ASSERT_TRUE(world.link().transmit(write));
    EXPECT_EQ(world.next<ScsiResponse>(log).status, 0) << bytes;
    std::vector<std::byte> read(bytes);
    Task read_task;
    world.set_up(read_task, false, 3, read, 1'000);
    ASSERT_TRUE(world.link().transmit(read_task));
    const auto response = world.next<ScsiResponse>(log);
    EXPECT_EQ(response.status, 0);
    EXPECT_EQ(response.exp_data_sn, 0U);
    EXPECT_EQ(read, written) << bytes;
    EXPECT_EQ(world.link().registrations()->taken(), 0U);
  }
  EXPECT_EQ(world.movers.front()->tasks(), 0U);
}

// R-IST-4: what a command reads is written with its response, in one chain.
TEST(IserData, GoesWithItsResponseInOneChain) {
  World world;
  PduLog log;
  world.connect(log);
  world.login(log);
  TargetDatamover& target = *world.movers.front();
  const std::uint64_t chains = target.chains();
  const std::uint64_t requests = target.requests();
  std::vector<std::byte> read(512);
  Task task;
  world.set_up(task, false, 3, read);
  ASSERT_TRUE(world.link().transmit(task));
  EXPECT_EQ(world.next<ScsiResponse>(log).status, 0);
  EXPECT_EQ(target.requests() - requests, 2U) << "an RDMA WRITE and a SEND";
  EXPECT_EQ(target.chains() - chains, 1U);
}

struct Combination {
  bool initial_r2t{};
  bool immediate_data{};
  std::uint32_t first_burst{};
};
class IserUnsolicited : public ::testing::TestWithParam<Combination> {};

// T-ISER-8: immediate and unsolicited octets by RFC 7143, and the rest by RDMA READ from the
// address in the header.
TEST_P(IserUnsolicited, DataGoesAsNegotiated) {
  const Combination& param = GetParam();
  World world;
  PduLog log;
  world.connect(log);
  const TransferParameters agreed{.initial_r2t = param.initial_r2t,
                                  .immediate_data = param.immediate_data,
                                  .first_burst_bytes = param.first_burst};
  world.login(log, agreed);
  for (const std::uint32_t bytes : {4'096U, 16'384U, 65'536U}) {
    const std::uint32_t burst = std::min(bytes, param.first_burst);
    const std::uint32_t immediate = param.immediate_data ? std::min(burst, 8'192U) : 0;
    const std::uint32_t unsolicited = param.initial_r2t ? 0 : burst - immediate;
    auto written = pattern(bytes, bytes);
    const std::uint64_t sends = world.link().channel()->sends().total();
    Task write;
    world.set_up(write, true, 8, written);
    ASSERT_TRUE(world.link().transmit(write));
    EXPECT_EQ(write.plan.immediate_bytes, immediate);
    EXPECT_EQ(write.plan.data_out_bytes, unsolicited);
    const bool is_registered = immediate + unsolicited < bytes;
    const std::uint32_t data_outs = (unsolicited + 8'191) / 8'192;
    EXPECT_EQ(world.link().channel()->sends().total() - sends, 1 + is_registered + data_outs);
    EXPECT_EQ(write.command.final, unsolicited == 0);
    EXPECT_EQ(world.next<ScsiResponse>(log).status, 0);
    std::vector<std::byte> read(bytes);
    Task read_task;
    world.set_up(read_task, false, 8, read);
    ASSERT_TRUE(world.link().transmit(read_task));
    EXPECT_EQ(world.next<ScsiResponse>(log).status, 0);
    EXPECT_EQ(read, written);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, IserUnsolicited,
    ::testing::Values(Combination{true, true, 65'536}, Combination{true, false, 65'536},
                      Combination{false, true, 65'536}, Combination{false, false, 65'536},
                      Combination{false, true, 8'192}, Combination{false, false, 4'096},
                      Combination{true, true, 4'096}, Combination{false, true, 20'480}));

TEST(IserKeys, AreInvalidatedByTheTargetOrHereBeforeTheResponseIsSeen) {
  for (const bool remote : {true, false}) {
    World world{1, {.uses_remote_invalidation = remote}};
    PduLog log;
    world.connect(log);
    EXPECT_EQ(world.link().uses_remote_invalidation(), remote);
    world.login(log);
    std::vector<std::byte> memory(4'096);
    const std::uint64_t before = world.link().channel()->sends().total();
    for (int i = 0; i < 4; ++i) {
      Task read;
      world.set_up(read, false, 0, memory);
      ASSERT_TRUE(world.link().transmit(read));
      EXPECT_EQ(world.next<ScsiResponse>(log).status, 0);
      EXPECT_EQ(read.pending, 0U);
    }
    // Registration and command; and the key's end where the target does not do that.
    EXPECT_EQ(world.link().channel()->sends().total() - before, remote ? 8U : 12U);
  }
}

TEST(IserFlow, SignalsEveryNthCommandAndPostsReceivesInBatches) {
  World world;
  PduLog log;
  world.connect(log, {.max_commands = 16, .signal_interval = 8});
  world.login(log);
  SendQueue& sends = world.link().channel()->sends();
  const std::uint64_t signalled = sends.signalled();
  const std::uint64_t total = sends.total();
  const std::uint64_t batches = world.link().channel()->receive_batches();
  std::vector<std::byte> memory(512);
  for (int i = 0; i < 64; ++i) {
    Task read;
    world.set_up(read, false, 0, memory);
    ASSERT_TRUE(world.link().transmit(read));
    EXPECT_EQ(world.next<ScsiResponse>(log).status, 0);
  }
  EXPECT_EQ(sends.total() - total, 128U);
  EXPECT_EQ(sends.signalled() - signalled, 16U);
  EXPECT_EQ(world.link().channel()->receive_batches() - batches, 64U / 8);  // a quarter of 32
}

}  // namespace
}  // namespace weft::iser
