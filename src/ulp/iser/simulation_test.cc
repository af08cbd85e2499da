// Both halves together: packets are lost, steps of the CM take any time, and either end is ended at
// any moment; every command that was answered has moved its data, and nothing is left.

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "ulp/iser/testing/world.h"

namespace weft::iser {
namespace {

using testing::PduLog;
using testing::World;
using wire::iscsi::ScsiResponse;

// T-ISER-5.
TEST(IserLoad, EachOf512CommandsOf256KibFindsItsRegistration) {
  iscsi::ServerOptions server;
  server.command_window = 600;
  World world{
      1, {.receives = 1'024, .send_depth = 4'096},
       server
  };
  PduLog log;
  world.connect(log, {.max_commands = 512});
  world.login(log);
  const std::size_t all = world.link().registrations()->free();
  std::vector<std::byte> memory(262'144);
  std::vector<std::unique_ptr<Task>> tasks;
  for (int i = 0; i < 512; ++i) {
    tasks.push_back(std::make_unique<Task>());
    world.set_up(*tasks.back(), false, 0, memory);
    const auto sent = world.link().transmit(*tasks.back());
    ASSERT_TRUE(sent) << i << ": " << sent.error().reason;
  }
  EXPECT_EQ(world.link().registrations()->taken(), 512U);
  for (int i = 0; i < 512; ++i) {
    ASSERT_EQ(world.next<ScsiResponse>(log).status, 0);
  }
  EXPECT_EQ(world.link().registrations()->taken(), 0U);
  EXPECT_EQ(world.link().registrations()->free(), all);
}

class IserSimulation : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(IserSimulation, AnsweredCommandsHaveMovedTheirDataAndNothingIsLeft) {
  Random random{GetParam()};
  World world{GetParam(), {.uses_remote_invalidation = random.chance(1, 2)}};
  PduLog log;
  world.connect(log, {.max_commands = 16, .signal_interval = 4});
  world.login(log, {.initial_r2t = random.chance(1, 2),
                    .immediate_data = random.chance(1, 2),
                    .first_burst_bytes = 16'384});
  const std::uint64_t loss = random.below(20);
  world.network.filter = [&](const auto& /*flight*/) { return !random.chance(loss, 1'000); };
  constexpr std::size_t kBytes = 32'768;
  std::vector<std::byte> disk(8 * kBytes);  // as it must be
  for (unsigned round = 0; round < 12 && log.losses == 0; ++round) {
    const std::size_t place = random.below(8);
    std::vector<std::byte> memory(kBytes);
    const bool writes = random.chance(1, 2);
    const auto fill = static_cast<std::byte>(random.below(256));
    if (writes) {
      std::ranges::fill(memory, fill);
    }
    Task task;
    world.set_up(task, writes, static_cast<std::uint32_t>(place * kBytes / 512), memory, 3'000);
    ASSERT_TRUE(world.link().transmit(task));
    if (random.chance(1, 30)) {
      world.movers.front()->terminate(iscsi::Datamover::Ending::AtOnce, "killed");
    } else if (random.chance(1, 30)) {
      world.link().begin_termination("killed");
    } else if (random.chance(1, 30)) {
      world.cm->remove_device(0);
    }
    world.environment.wait_until([&] { return !log.came.empty() || log.losses != 0; },
                                 Instant::never());
    if (log.came.empty()) {
      break;
    }
    EXPECT_EQ(world.next<ScsiResponse>(log).status, 0);
    const MutableByteSpan there = MutableByteSpan{disk}.subspan(place * kBytes, kBytes);
    if (writes) {
      std::ranges::fill(there, fill);
    } else {
      EXPECT_TRUE(std::ranges::equal(memory, there));
    }
  }
  world.initiator->stop(*world.connection, StopFlag::Terminate);
  EXPECT_EQ(log.losses, 1U);
}

INSTANTIATE_TEST_SUITE_P(Seeds, IserSimulation, ::testing::Range<std::uint64_t>(1, 41));

// T-ISER-7, with the target half's own QP: a key that is another task's, and one that is nobody's.
TEST(IserInvalidation, AWrongKeyEndsTheConnection) {
  for (const bool is_anothers : {true, false}) {
    World world;
    PduLog log;
    world.connect(log);
    world.login(log);
    std::vector<std::byte> memory(65'536);
    Task first;
    Task second;
    world.set_up(first, true, 0, memory);
    world.set_up(second, true, 0, memory);
    ASSERT_TRUE(world.link().transmit(first));
    ASSERT_TRUE(world.link().transmit(second));
    // Before the commands are there: neither has been answered.
    const RKey key = is_anothers ? second.registrations[0]->rkey : RKey{0x1234'5600};
    ScsiResponse response;
    response.initiator_task_tag = first.command.initiator_task_tag;
    world.movers.front()->send_invalidating(iscsi::OutgoingPdu{response}, key);
    world.environment.wait_until([&] { return log.losses != 0; }, Instant::never());
    EXPECT_TRUE(log.came.empty());
    EXPECT_EQ(world.link().state(), ConnectionState::Down);
    EXPECT_FALSE(world.link().transmit(first));
    world.initiator->stop(*world.connection, StopFlag::Recover);
  }
}

}  // namespace
}  // namespace weft::iser
