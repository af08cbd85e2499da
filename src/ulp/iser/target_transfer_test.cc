// How a target moves the data of commands (R-IST-4): under the key for all local memory, or through
// regions where its device does not reach all memory under one.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ulp/iser/testing/world.h"
#include "ulp/iser/transfer.h"

namespace weft::iser {
namespace {

using testing::PduLog;
using testing::World;
using testing::WorldOptions;
using wire::iscsi::ScsiResponse;

/// What the driver of the target's device was given to post; of one test at a time.
struct Posted {
  unsigned reads{};
  unsigned writes{};
  unsigned under_key{};  ///< of these, with the PD's key for all local memory
  unsigned registrations{};
  unsigned invalidations{};
  unsigned sends{};
  unsigned refused_registration{};  ///< which one the driver refuses, from 1; 0: none
};
Posted posted;

[[nodiscard]] bool is_transfer(const core::SendWr& wr) {
  return !wr.sges.empty() &&  // as a drain's marker has none
         (wr.opcode == verbs::WrOpcode::RdmaRead || wr.opcode == verbs::WrOpcode::RdmaWrite);
}

void count(const core::Qp& qp, const core::SendWr& wr) {
  using enum verbs::WrOpcode;
  posted.registrations += wr.opcode == RegisterMemory ? 1 : 0;
  posted.invalidations += wr.opcode == LocalInvalidate ? 1 : 0;
  posted.sends += wr.opcode == Send || wr.opcode == SendWithInvalidate ? 1 : 0;
  if (is_transfer(wr)) {
    ++(wr.opcode == RdmaRead ? posted.reads : posted.writes);
    posted.under_key += wr.sges[0].lkey == qp.pd()->local_dma_lkey() ? 1 : 0;
  }
}

/// As drivers do, posts what precedes the request that it refuses.
Result<void> post_send_counted(core::Qp& qp, const core::SendWr& first, const core::SendWr** bad) {
  std::vector<core::SendWr> chain;
  Result<void> refused;
  for (const core::SendWr* wr = &first; wr != nullptr; wr = wr->next) {
    count(qp, *wr);
    if (wr->opcode == verbs::WrOpcode::RegisterMemory &&
        posted.registrations == posted.refused_registration) {
      *bad = wr;
      refused = fail(ErrorCode::OutOfMemory, "the test refuses this one");
      break;
    }
    chain.push_back(*wr);
  }
  for (std::size_t i = 0; i < chain.size(); ++i) {
    chain[i].next = i + 1 < chain.size() ? &chain[i + 1] : nullptr;
  }
  if (!chain.empty()) {
    const core::SendWr* unused = nullptr;
    if (auto sent = core::engine::engine_operations().post_send(qp, chain.front(), &unused);
        !sent) {
      *bad = &first;
      return sent;
    }
  }
  return refused;
}

[[nodiscard]] core::DeviceOperations counting() {
  core::DeviceOperations operations = core::engine::engine_operations();
  operations.post_send = post_send_counted;
  return operations;
}

[[nodiscard]] core::DeviceOperations registering_reads() {
  core::DeviceOperations operations = counting();
  operations.query_device = [](core::Device& device) {
    auto attributes = core::engine::engine_operations().query_device(device);
    attributes->capabilities |= core::DeviceCapability::ReadNeedsRegistration;
    return attributes;
  };
  return operations;
}

/// What transfers of the device go through.
struct Kind {
  const char* name;
  bool registers_reads;
  bool registers_writes;

  [[nodiscard]] core::engine::EngineInit init() const {
    return {.forces_registration = registers_writes,
            .operations = registers_reads && !registers_writes ? registering_reads : counting};
  }
};
constexpr Kind kReachesAll{"one_key", false, false};
constexpr Kind kRegistersReads{"reads_by_regions", true, false};
constexpr Kind kRegistersAll{"all_by_regions", true, true};

[[nodiscard]] WorldOptions options_of(const Kind& kind, const TargetOptions& target = {}) {
  return {.target = target, .target_device = kind.init()};
}

/// All data of a WRITE is asked for.
constexpr TransferParameters kSolicited{.initial_r2t = true, .immediate_data = false};

[[nodiscard]] std::vector<std::byte> pattern(std::size_t bytes, unsigned seed) {
  std::vector<std::byte> octets(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    octets[i] = static_cast<std::byte>((i * 7 + i / 509 + seed) & 0xFF);
  }
  return octets;
}

class TargetTransfers : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override { posted = {}; }
};

// WRITE commands by RDMA READs, each as long as a burst; READ commands by an RDMA WRITE and the
// response in one chain.
TEST_P(TargetTransfers, GoAsTheDeviceCan) {
  const Kind& kind = GetParam();
  World world{1, options_of(kind)};
  PduLog log;
  world.connect(log);
  world.login(log, kSolicited);
  TargetDatamover& target = *world.movers.front();
  for (const std::size_t bytes : {512UL, 4'096UL, 65'536UL, 262'144UL, 524'288UL}) {
    posted = {};
    auto written = pattern(bytes, 3);
    Task write;
    world.set_up(write, true, 3, written, 4'608);
    ASSERT_TRUE(world.link().transmit(write));
    EXPECT_EQ(world.next<ScsiResponse>(log).status, 0) << bytes;
    const auto bursts = static_cast<unsigned>((bytes + 262'143) / 262'144);
    EXPECT_EQ(posted.reads, bursts);
    EXPECT_EQ(posted.registrations, kind.registers_reads ? bursts : 0);
    EXPECT_EQ(posted.under_key, kind.registers_reads ? 0 : bursts);

    posted = {};
    const std::uint64_t chains = target.chains();
    std::vector<std::byte> found(bytes);
    Task read;
    world.set_up(read, false, 3, found, 1'000);
    ASSERT_TRUE(world.link().transmit(read));
    EXPECT_EQ(world.next<ScsiResponse>(log).status, 0) << bytes;
    EXPECT_TRUE(found == written) << bytes;
    EXPECT_EQ(posted.writes, 1U) << "what is in one piece goes in one";
    EXPECT_EQ(posted.sends, 1U);
    EXPECT_EQ(target.chains() - chains, 1U);
    EXPECT_EQ(posted.registrations, kind.registers_writes ? 1U : 0U);
    EXPECT_EQ(posted.under_key, kind.registers_writes ? 0U : 1U);
  }
  world.environment.advance(Duration::milliseconds(1));  // the target hears of its last SEND's end
  EXPECT_EQ(target.regions(), 0U);
  EXPECT_EQ(target.tasks(), 0U);
  world.initiator->stop(*world.connection, StopFlag::Terminate);
}

INSTANTIATE_TEST_SUITE_P(Devices, TargetTransfers,
                         ::testing::Values(kReachesAll, kRegistersReads, kRegistersAll),
                         [](const auto& info) { return std::string{info.param.name}; });

// As many as transfers are to be under way, and never fewer than the longest of them takes.
TEST_P(TargetTransfers, HaveRegionsWhereTheDeviceWantsThem) {
  World world{1, options_of(GetParam())};
  const core::Device& device = world.network.host(1).device();
  const bool wants = GetParam().registers_reads;
  EXPECT_EQ(Transfer::regions_for(device, 64), wants ? 64U : 0U);
  EXPECT_EQ(Transfer::regions_for(device, 1), wants ? 2U : 0U);
}

class TargetRegions : public ::testing::Test {
 protected:
  TargetRegions() { posted = {}; }

  void connect(World& world) {
    world.connect(log_);
    world.login(log_, kSolicited);
  }
  /// Commands of 64 KiB each, of places one after the other.
  void transmit(World& world, bool writes, std::size_t commands) {
    tasks_.clear();
    memory_.clear();
    for (std::uint32_t i = 0; i < commands; ++i) {
      memory_.push_back(pattern(65'536, writes ? i : 99));
      tasks_.push_back(std::make_unique<Task>());
      world.set_up(*tasks_.back(), writes, i * 128, memory_.back());
      ASSERT_TRUE(world.link().transmit(*tasks_.back()));
    }
  }
  void expect_answers(World& world) {
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      ASSERT_EQ(world.next<ScsiResponse>(log_).status, 0) << i;
    }
  }
  static void expect_nothing_left(World& world) {
    const core::Device& device = world.network.host(1).device();
    for (const auto kind :
         {core::ResourceKind::Qp, core::ResourceKind::Mr, core::ResourceKind::Pd}) {
      EXPECT_EQ(device.resource_count(kind), 0U);
    }
  }

  PduLog log_;
  std::vector<std::vector<std::byte>> memory_;
  std::vector<std::unique_ptr<Task>> tasks_;
};

// A READ that is as long as may be takes two regions, so that there are no fewer.
TEST_F(TargetRegions, AreWaitedForWhereAllAreInUse) {
  World world{1, options_of(kRegistersAll, {.registered_transfers = 1})};
  connect(world);
  TargetDatamover& target = *world.movers.front();
  std::size_t most = 0;
  world.network.filter = [&](const auto& /*flight*/) {
    most = std::max(most, target.regions());
    return true;
  };
  transmit(world, true, 12);
  expect_answers(world);
  transmit(world, false, 12);
  expect_answers(world);
  world.environment.advance(Duration::milliseconds(1));
  EXPECT_EQ(most, 2U);
  EXPECT_EQ(target.regions(), 0U);
  EXPECT_EQ(posted.registrations, 24U);
  EXPECT_EQ(posted.invalidations, 22U);
  for (unsigned i = 0; i < 12; ++i) {
    EXPECT_TRUE(memory_[i] == pattern(65'536, i)) << i;
  }
  std::vector<std::byte> longest(1 << 20);
  Task read;
  world.set_up(read, false, 0, longest);
  ASSERT_TRUE(world.link().transmit(read));
  EXPECT_EQ(world.next<ScsiResponse>(log_).status, 0);
  world.initiator->stop(*world.connection, StopFlag::Terminate);
}

TEST_F(TargetRegions, AreGivenBackWhereTheDeviceGoesDuringIo) {
  World world{1, options_of(kRegistersAll, {.registered_transfers = 4})};
  connect(world);
  transmit(world, true, 12);
  TargetDatamover& target = *world.movers.front();
  ASSERT_TRUE(world.environment.wait_until([&] { return target.regions() == 4; },
                                           world.environment.now() + Duration::seconds(1)));
  world.network.host(1).unregister_device();
  EXPECT_EQ(world.targets_gone, 1U);
  expect_nothing_left(world);
  world.initiator->stop(*world.connection, StopFlag::Recover);
}

// Whatever of a chain the driver has taken before: the connection ends, and nothing is left.
TEST_F(TargetRegions, AreGivenBackWhereTheDriverRefusesARequest) {
  for (unsigned refused = 1; refused <= 8; ++refused) {
    posted = {};
    World world{1, options_of(kRegistersAll, {.registered_transfers = 2})};
    PduLog log;
    world.connect(log);
    world.login(log, kSolicited);
    posted = {.refused_registration = refused};
    std::vector<std::byte> memory(65'536);
    std::vector<std::unique_ptr<Task>> tasks;
    for (unsigned i = 0; i < 10; ++i) {
      tasks.push_back(std::make_unique<Task>());
      world.set_up(*tasks.back(), i % 2 == 0, 0, memory);
      ASSERT_TRUE(world.link().transmit(*tasks.back()));
    }
    ASSERT_TRUE(
        world.environment.wait_until([&] { return world.targets_gone == 1 && log.losses == 1; },
                                     world.environment.now() + Duration::seconds(10)))
        << refused;
    EXPECT_NE(world.movers.front()->reason().find("refuses"), std::string::npos);
    EXPECT_LT(log.came.size(), tasks.size());
    expect_nothing_left(world);
    world.initiator->stop(*world.connection, StopFlag::Recover);
  }
}

}  // namespace
}  // namespace weft::iser
