// Both halves together: packets are lost, steps of the CM take any time, and either end is ended at
// any moment; every command that was answered has moved its data, and nothing is left.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "ulp/iser/planted_bug.h"
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

constexpr std::size_t kBytes = 32'768;
constexpr std::size_t kPlaces = 8;

/// One command after another, each of a place of the disk, until one is not answered.
class Exchange {
 public:
  explicit Exchange(std::uint64_t seed)
      : random_(seed), world_(seed, {.uses_remote_invalidation = random_.chance(1, 2)}) {
    world_.connect(log_, {.max_commands = 16, .signal_interval = 4});
    world_.login(log_, {.initial_r2t = random_.chance(1, 2),
                        .immediate_data = random_.chance(1, 2),
                        .first_burst_bytes = 16'384});
    const std::uint64_t loss = random_.below(20);
    world_.network.filter = [this, loss](const auto& /*flight*/) {
      return !random_.chance(loss, 1'000);
    };
  }

  /// What is wrong; empty if nothing is.
  std::string operator()() {
    std::string wrong;
    for (unsigned round = 0; round < 12 && log_.losses == 0 && wrong.empty(); ++round) {
      wrong = command();
    }
    world_.initiator->stop(*world_.connection, StopFlag::Terminate);
    if (wrong.empty() && log_.losses != 1) {
      wrong = "the iSCSI layer hears of the end more often than once, or never";
    }
    return wrong;
  }

 private:
  std::string command() {
    const std::size_t place = random_.below(kPlaces);
    const MutableByteSpan there = MutableByteSpan{disk_}.subspan(place * kBytes, kBytes);
    std::vector<std::byte> memory(kBytes);
    const bool writes = random_.chance(1, 2);
    const std::uint64_t fill = random_.below(256);
    for (std::size_t i = 0; writes && i < kBytes; ++i) {  // no two blocks are alike
      memory[i] = static_cast<std::byte>((fill + i + i / 512 * 7) & 0xFF);
    }
    Task task;
    world_.set_up(task, writes, static_cast<std::uint32_t>(place * kBytes / 512), memory, 3'000);
    if (!world_.link().transmit(task)) {
      return "a command cannot be sent";
    }
    if (random_.chance(1, 30)) {
      world_.movers.front()->terminate(iscsi::Datamover::Ending::AtOnce, "killed");
    } else if (random_.chance(1, 30)) {
      world_.link().begin_termination("killed");
    } else if (random_.chance(1, 30)) {
      world_.cm->remove_device(0);
    }
    world_.environment.wait_until([&] { return !log_.came.empty() || log_.losses != 0; },
                                  Instant::never());
    if (log_.came.empty()) {
      return {};
    }
    if (world_.next<ScsiResponse>(log_).status != 0) {
      return "a command fails";
    }
    if (writes) {
      std::ranges::copy(memory, there.begin());
    }
    return std::ranges::equal(memory, there) ? "" : "another place was read than was written";
  }

  Random random_;
  World world_;
  PduLog log_;
  std::vector<std::byte> disk_ = std::vector<std::byte>(kPlaces * kBytes);  // as it must be
};

/// What is wrong with a target that invalidates a key which is another task's, or nobody's.
std::string invalidate_wrongly(bool is_anothers) {
  World world;
  PduLog log;
  world.connect(log);
  world.login(log);
  std::vector<std::byte> memory(65'536);
  Task first;
  Task second;
  world.set_up(first, true, 0, memory);
  world.set_up(second, true, 0, memory);
  if (!world.link().transmit(first) || !world.link().transmit(second)) {
    return "a command cannot be sent";
  }
  // Before the commands are there: neither has been answered.
  const RKey key = is_anothers ? second.registrations[0]->rkey : RKey{0x1234'5600};
  ScsiResponse response;
  response.initiator_task_tag = first.command.initiator_task_tag;
  world.movers.front()->send_invalidating(iscsi::OutgoingPdu{response}, key);
  world.environment.wait_until([&] { return log.losses != 0 || !log.came.empty(); },
                               Instant::never());
  const bool ended = log.came.empty() && world.link().state() == ConnectionState::Down &&
                     !world.link().transmit(first);
  world.initiator->stop(*world.connection, StopFlag::Recover);
  return ended ? "" : "the connection goes on";
}

class IserSimulation : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(IserSimulation, AnsweredCommandsHaveMovedTheirDataAndNothingIsLeft) {
  EXPECT_EQ(Exchange{GetParam()}(), "");
}

INSTANTIATE_TEST_SUITE_P(Seeds, IserSimulation, ::testing::Range<std::uint64_t>(1, 41));

// T-ISER-7, with the target half's own QP.
TEST(IserInvalidation, AWrongKeyEndsTheConnection) {
  EXPECT_EQ(invalidate_wrongly(true), "");
  EXPECT_EQ(invalidate_wrongly(false), "");
}

#ifdef WEFT_PLANTED_BUGS
class IserPlantedBugs : public ::testing::TestWithParam<unsigned> {
 protected:
  void TearDown() override { planted_bug = PlantedBug::None; }
};

TEST_P(IserPlantedBugs, AreFound) {
  planted_bug = static_cast<PlantedBug>(GetParam());
  bool found = false;
  for (std::uint64_t seed = 1; seed <= 40 && !found; ++seed) {
    found = !Exchange{seed}().empty();
  }
  EXPECT_TRUE(found) << "bug " << GetParam();
}

INSTANTIATE_TEST_SUITE_P(All, IserPlantedBugs,
                         ::testing::Range(1U, static_cast<unsigned>(kLastBug) + 1));
#endif

}  // namespace
}  // namespace weft::iser
