// The target's half of a connection: how it begins, what it takes, and how it ends.

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "ulp/iser/testing/world.h"
#include "wire/iscsi/nop.h"

namespace weft::iser {
namespace {

using testing::kEndingEvents;
using testing::PduLog;
using testing::World;
using Ending = iscsi::Datamover::Ending;

bool wait_until_gone(World& world, std::size_t count, Duration span) {
  return world.environment.wait_until([&] { return world.targets_gone == count; },
                                      world.environment.now() + span);
}

constexpr TransferParameters kUnsolicited{
    .initial_r2t = false, .immediate_data = false, .first_burst_bytes = 64 << 10};
constexpr std::uint32_t kWriteTag = 77;
constexpr std::uint32_t kDataOutBytes = 8'192;
constexpr std::uint32_t kDataOuts = (64 << 10) / kDataOutBytes;

/// A WRITE of 64 KiB to the disk's begin, all of whose data is to come unsolicited.
void send_write(World& world, Connection& link) {
  wire::iscsi::ScsiCommand command;
  command.write = true;
  command.final = false;  // unsolicited data follows
  command.expected_data_transfer_length = 64 << 10;
  command.initiator_task_tag = kWriteTag;
  command.cmd_sn = world.cmd_sn;
  command.exp_stat_sn = world.exp_stat_sn;
  command.cdb[0] = std::byte{0x2A};  // WRITE (10) of 128 blocks
  command.cdb[8] = std::byte{128};
  ASSERT_TRUE(link.send_control(iscsi::OutgoingPdu{command}));
}

/// Of that data the Data-Outs from `first` to before `last`, each of another octet.
void send_data(Connection& link, std::uint32_t first, std::uint32_t last) {
  for (std::uint32_t i = first; i < last; ++i) {
    wire::iscsi::DataOut data;
    data.final = i + 1 == kDataOuts;
    data.initiator_task_tag = kWriteTag;
    data.data_sn = i;
    data.buffer_offset = i * kDataOutBytes;
    const std::vector<std::byte> octets(kDataOutBytes, static_cast<std::byte>(i + 1));
    ASSERT_TRUE(link.send_control(iscsi::OutgoingPdu{data, octets}));
  }
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
  world.login(log, kUnsolicited);
  send_write(world, world.link());
  send_data(world.link(), 0, 2);
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

// T-IST-4: what each drops at its end is its own, so that a third goes on beside them whose data is
// half there, as theirs is.
TEST(IserTarget, ConnectionsThatEndAtOnceDoNotDisturbOthers) {
  World world;
  std::vector<PduLog> logs(3);
  std::vector<SessionConnection*> connections;
  for (PduLog& log : logs) {
    world.connect(log);
    connections.push_back(world.connection);
    world.cmd_sn = 100;
    world.login(log, kUnsolicited);
    ++world.isid;
    send_write(world, world.link());
    send_data(world.link(), 0, 2);
  }
  ASSERT_EQ(world.fixture.server.sessions(), 3U);
  const auto tasks = [&](std::size_t at) { return world.movers[at]->tasks(); };
  ASSERT_TRUE(
      world.environment.wait_until([&] { return tasks(0) == 1 && tasks(1) == 1 && tasks(2) == 1; },
                                   world.environment.now() + Duration::seconds(1)));
  world.environment.advance(Duration::milliseconds(100));
  world.movers[0]->terminate(Ending::AtOnce, "the target ends it");
  connections[1]->connection()->begin_termination("the initiator ends it");
  EXPECT_TRUE(wait_until_gone(world, 2, Duration::seconds(2)));
  EXPECT_EQ(world.fixture.server.sessions(), 1U);
  EXPECT_EQ(tasks(0), 0U);
  EXPECT_EQ(tasks(1), 0U);
  EXPECT_EQ(tasks(2), 1U);
  send_data(world.link(), 2, kDataOuts);
  EXPECT_EQ(world.next<wire::iscsi::ScsiResponse>(logs[2]).status, 0);
  EXPECT_EQ(logs[2].losses, 0U);
  EXPECT_EQ(tasks(2), 0U);
  ++world.cmd_sn;
  std::vector<std::byte> found(64 << 10);
  Task read;
  world.set_up(read, false, 0, found);
  ASSERT_TRUE(world.link().transmit(read));
  EXPECT_EQ(world.next<wire::iscsi::ScsiResponse>(logs[2]).status, 0);
  for (std::size_t at = 0; at < found.size(); at += kDataOutBytes / 2) {
    ASSERT_EQ(found[at], static_cast<std::byte>(at / kDataOutBytes + 1)) << at;
  }
  world.initiator->stop(*connections[0], StopFlag::Recover);
  world.initiator->stop(*connections[1], StopFlag::Recover);
}

// R-IST-5, where the device goes, for which RDMA-CM waits until each id of it has gone.
TEST(IserTarget, ItsDeviceIsUnregisteredDuringIo) {
  World world;
  PduLog log;
  world.connect(log);
  world.login(log);
  std::vector<std::vector<std::byte>> memory(8, std::vector<std::byte>(65'536));
  std::vector<std::unique_ptr<Task>> tasks;
  for (auto& octets : memory) {
    tasks.push_back(std::make_unique<Task>());
    world.set_up(*tasks.back(), true, 0, octets);
    ASSERT_TRUE(world.link().transmit(*tasks.back()));
  }
  ASSERT_TRUE(world.environment.wait_until([&] { return world.movers.front()->tasks() != 0; },
                                           world.environment.now() + Duration::seconds(1)));
  world.network.host(1).unregister_device();
  EXPECT_EQ(world.targets_gone, 1U);
  EXPECT_EQ(world.fixture.server.sessions(), 0U);
  EXPECT_EQ(world.movers.front()->tasks(), 0U);
  const core::Device& device = world.network.host(1).device();
  for (const auto kind : {core::ResourceKind::Qp, core::ResourceKind::Mr, core::ResourceKind::Pd}) {
    EXPECT_EQ(device.resource_count(kind), 0U);
  }
  world.initiator->stop(*world.connection, StopFlag::Recover);
}

// R-IST-5, R-ISER-12.
TEST(IserTarget, EveryEventThatEndsAConnectionEndsIt) {
  for (const CmEvent event : kEndingEvents) {
    World world;
    PduLog log;
    world.connect(log);
    world.login(log);
    world.cm->report_all(1, event);
    EXPECT_TRUE(wait_until_gone(world, 1, Duration::seconds(2))) << std::to_underlying(event);
    EXPECT_EQ(world.fixture.server.connections(), 0U);
    world.initiator->stop(*world.connection, StopFlag::Recover);
  }
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
