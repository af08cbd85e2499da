// The target's half of a connection: how it begins, what it takes, and how it ends.

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "ulp/iser/testing/world.h"
#include "wire/iscsi/nop.h"

namespace weft::iser {
namespace {

using testing::PduLog;
using testing::World;
using Ending = iscsi::Datamover::Ending;

bool wait_until_gone(World& world, std::size_t count, Duration span) {
  return world.environment.wait_until([&] { return world.targets_gone == count; },
                                      world.environment.now() + span);
}

// T-IST-1, from each state that it is in after its accept.
TEST(IserTarget, TerminatedThreeTimesItDisconnectsOnce) {
  enum class State : std::uint8_t { Connected, LoggedIn, Lingering };
  for (const State state : {State::Connected, State::LoggedIn, State::Lingering}) {
    World world;
    PduLog log;
    world.connect(log);
    if (state != State::Connected) {
      world.login(log);
    }
    TargetDatamover& target = *world.movers.front();
    if (state == State::Lingering) {
      target.terminate(Ending::AfterOutput, "first");
    }
    const unsigned before = world.cm->disconnects;
    for (const char* const reason : {"first", "second", "third"}) {
      target.terminate(Ending::AtOnce, reason);
    }
    EXPECT_EQ(world.cm->disconnects, before + 1);
    EXPECT_TRUE(wait_until_gone(world, 1, Duration::seconds(2)));
    world.environment.advance(Duration::seconds(5));
    EXPECT_EQ(world.targets_gone, 1U);
    EXPECT_EQ(target.reason(), "first");
    EXPECT_EQ(world.fixture.server.connections(), 0U);
    EXPECT_EQ(log.losses, 1U);
    world.initiator->stop(*world.connection, StopFlag::Recover);
  }
}

// T-IST-2.
TEST(IserTarget, AnInitiatorThatVanishesInItsUnsolicitedDataLeavesNoCommand) {
  World world;
  PduLog log;
  world.connect(log);
  world.login(log, {.initial_r2t = false, .immediate_data = false, .first_burst_bytes = 64 << 10});
  wire::iscsi::ScsiCommand command;
  command.write = true;
  command.final = false;  // unsolicited data follows
  command.expected_data_transfer_length = 64 << 10;
  command.initiator_task_tag = 77;
  command.cmd_sn = world.cmd_sn++;
  command.exp_stat_sn = world.exp_stat_sn;
  command.cdb[0] = std::byte{0x2A};  // WRITE (10) of 128 blocks
  command.cdb[8] = std::byte{128};
  ASSERT_TRUE(world.link().send_control(iscsi::OutgoingPdu{command}));
  for (std::uint32_t i = 0; i < 2; ++i) {
    wire::iscsi::DataOut data;
    data.initiator_task_tag = 77;
    data.data_sn = i;
    data.buffer_offset = i * 8'192;
    ASSERT_TRUE(world.link().send_control(iscsi::OutgoingPdu{data, std::vector<std::byte>(8'192)}));
  }
  TargetDatamover& target = *world.movers.front();
  ASSERT_TRUE(world.environment.wait_until([&] { return target.tasks() == 1; },
                                           world.environment.now() + Duration::seconds(1)));
  world.environment.advance(Duration::milliseconds(100));
  EXPECT_EQ(target.tasks(), 1U);
  world.link().begin_termination("it vanishes");
  EXPECT_TRUE(wait_until_gone(world, 1, Duration::seconds(2)));
  EXPECT_EQ(world.fixture.server.sessions(), 0U);
  EXPECT_EQ(world.fixture.server.connections(), 0U);
  EXPECT_EQ(target.tasks(), 0U);
  world.initiator->stop(*world.connection, StopFlag::Recover);
}

// R-IST-5.
TEST(IserTarget, ItsEndWaitsForCommandsThatTheDiskExecutes) {
  World world;
  PduLog log;
  world.connect(log);
  world.login(log);
  world.fixture.gate.holds = true;
  std::vector<std::byte> memory(4'096);
  Task read;
  world.set_up(read, false, 0, memory);
  ASSERT_TRUE(world.link().transmit(read));
  ASSERT_TRUE(world.environment.wait_until([&] { return world.fixture.gate.waiting() == 1; },
                                           world.environment.now() + Duration::seconds(1)));
  TargetDatamover& target = *world.movers.front();
  target.terminate(Ending::AtOnce, "the test ends it");
  EXPECT_FALSE(wait_until_gone(world, 1, Duration::seconds(5)));
  EXPECT_TRUE(target.awaits_commands());
  EXPECT_EQ(world.fixture.server.connections(), 0U) << "the server knows";
  EXPECT_EQ(world.fixture.server.sessions(), 0U);
  ASSERT_TRUE(world.fixture.gate.release());
  EXPECT_TRUE(wait_until_gone(world, 1, Duration::seconds(1)));
  world.initiator->stop(*world.connection, StopFlag::Recover);
}

// T-IST-4, and a third that goes on beside them.
TEST(IserTarget, ConnectionsThatEndAtOnceDoNotDisturbOthers) {
  World world;
  std::vector<PduLog> logs(3);
  std::vector<SessionConnection*> connections;
  for (PduLog& log : logs) {
    world.connect(log);
    connections.push_back(world.connection);
    world.cmd_sn = 100;
    world.login(log);
    ++world.isid;
  }
  ASSERT_EQ(world.fixture.server.sessions(), 3U);
  world.movers[0]->terminate(Ending::AtOnce, "the target ends it");
  connections[1]->connection()->begin_termination("the initiator ends it");
  EXPECT_TRUE(wait_until_gone(world, 2, Duration::seconds(2)));
  EXPECT_EQ(world.fixture.server.sessions(), 1U);
  std::vector<std::byte> written(16'384, std::byte{0x5A});
  Task write;
  world.set_up(write, true, 3, written);
  ASSERT_TRUE(world.link().transmit(write));
  EXPECT_EQ(world.next<wire::iscsi::ScsiResponse>(logs[2]).status, 0);
  EXPECT_EQ(logs[2].losses, 0U);
  EXPECT_EQ(world.movers[2]->tasks(), 0U);
  world.initiator->stop(*connections[0], StopFlag::Recover);
  world.initiator->stop(*connections[1], StopFlag::Recover);
}

// T-IST-5.
TEST(IserTarget, EchoesTheDataOfANopAndTakesOddAddresses) {
  World world;
  PduLog log;
  world.connect(log);
  world.login(log);
  wire::iscsi::NopOut ping;
  ping.immediate = true;
  ping.initiator_task_tag = 5;
  ping.cmd_sn = world.cmd_sn;
  ping.exp_stat_sn = world.exp_stat_sn;
  std::vector<std::byte> sent(501);  // of the 512 that the initiator takes
  for (std::size_t i = 0; i < sent.size(); ++i) {
    sent[i] = static_cast<std::byte>(i * 7);
  }
  ASSERT_TRUE(world.link().send_control(iscsi::OutgoingPdu{ping, sent}));
  std::vector<std::byte> echoed;
  EXPECT_EQ(world.next<wire::iscsi::NopIn>(log, &echoed).initiator_task_tag, 5U);
  EXPECT_EQ(echoed, sent);

  constexpr std::size_t kPage = 4'096;
  std::vector<std::byte> memory(4 * kPage);
  const auto page_end = kPage - std::bit_cast<std::uint64_t>(memory.data()) % kPage;
  for (const std::size_t odd : {1UL, 511UL, kPage - 1}) {
    const auto part = MutableByteSpan{memory}.subspan((page_end + odd) % kPage, 2 * kPage);
    std::ranges::fill(part, static_cast<std::byte>(odd));
    Task write;
    world.set_up(write, true, 0, part, 3'001);
    ASSERT_TRUE(world.link().transmit(write));
    EXPECT_EQ(world.next<wire::iscsi::ScsiResponse>(log).status, 0);
    std::ranges::fill(part, std::byte{});
    Task read;
    world.set_up(read, false, 0, part, 2'999);
    ASSERT_TRUE(world.link().transmit(read));
    EXPECT_EQ(world.next<wire::iscsi::ScsiResponse>(log).status, 0);
    EXPECT_TRUE(std::ranges::all_of(
        part, [&](std::byte octet) { return octet == static_cast<std::byte>(odd); }));
  }
}

TEST(IserTarget, AfterItsLastOutputTheInitiatorHasASecondToDisconnect) {
  for (const bool initiator_does : {true, false}) {
    World world;
    PduLog log;
    world.connect(log);
    world.login(log);
    const unsigned before = world.cm->disconnects;
    world.movers.front()->terminate(Ending::AfterOutput, "logout");
    world.environment.advance(Duration::milliseconds(900));
    EXPECT_EQ(world.cm->disconnects, before);
    EXPECT_EQ(world.targets_gone, 0U);
    if (initiator_does) {
      world.link().begin_termination("logged out");
    }
    EXPECT_TRUE(wait_until_gone(world, 1, Duration::milliseconds(200)));
    EXPECT_EQ(world.movers.front()->reason(), "logout");
    world.initiator->stop(*world.connection, StopFlag::Recover);
  }
}

TEST(IserTarget, NegotiatesWhatTheTransportCanDo) {
  World world{
      1, {.receive_data_bytes = 16'384, .takes_unsolicited_data = false}
  };
  iscsi::Preferences preferences;
  TargetDatamover datamover{
      world.environment, {.receive_data_bytes = 16'384, .takes_unsolicited_data = false},
       [] {}
  };
  datamover.limit(preferences);
  EXPECT_TRUE(preferences.values.rdma_extensions);
  EXPECT_TRUE(preferences.values.initial_r2t);
  EXPECT_EQ(preferences.values.max_recv_data_segment_length, 16'384U);
  EXPECT_EQ(preferences.header_digest, iscsi::DigestPolicy::Never);
  EXPECT_EQ(preferences.data_digest, iscsi::DigestPolicy::Never);
}

}  // namespace
}  // namespace weft::iser
