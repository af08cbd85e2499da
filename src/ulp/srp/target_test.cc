#include "ulp/srp/target.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "ulp/srp/testing/bench_channel.h"

namespace weft::srp {
namespace {

using scsi::testing::cdb10;
using scsi::testing::pattern;
using testing::Octets;
using testing::TargetBench;
using Reason = wire::SrpLoginRejReason;

TEST(SrpLogin, AnswersInTheRep) {  // R-SRPT-6
  TargetBench bench;
  const auto login = bench.log_in();
  ASSERT_FALSE(login.refused);
  ASSERT_TRUE(login.connection->rep.has_value());
  EXPECT_FALSE(login.connection->rej.has_value());
  const auto response = wire::parse<wire::SrpLoginRsp>(*login.connection->rep);
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(response->tag, 77U);
  EXPECT_EQ(response->request_limit_delta, 8);
  EXPECT_TRUE(response->immediate_data);
  EXPECT_EQ(response->multichannel, wire::SrpMultichannelResult::None);
}

TEST(SrpLogin, TakesTheFormOfRdmaCm) {
  TargetBench bench;
  const auto octets = wire::pack(wire::to_rdma_cm(TargetBench::login_req()));
  auto connection = std::make_shared<testing::ManualConnection>(bench.memory);
  const auto id = bench.target.log_in(
      TargetBench::kPort, {.form = LoginForm::RdmaCm, .private_data = octets}, connection);
  ASSERT_TRUE(id.has_value());
  bench.connections.emplace_back(*id, connection);
  EXPECT_TRUE(connection->rep.has_value());
}

/// The reason in the private data of the REJ.
[[nodiscard]] std::uint32_t rejected(const TargetBench::Login& login) {
  if (!login.connection->rej) {
    return 0;
  }
  const auto judged = wire::srp_tables::decode_unit(*login.connection->rej);
  EXPECT_TRUE(judged.faults.empty());
  EXPECT_EQ(judged.numbers.at("TAG"), 77U);
  EXPECT_FALSE(login.connection->rep.has_value());
  EXPECT_TRUE(login.refused.has_value());
  return static_cast<std::uint32_t>(judged.numbers.at("REASON"));
}

TEST(SrpLogin, EachReasonOfRefusalIsInTheRej) {  // T-SRPT-2
  TargetBench bench{PortOptions{.max_channels = 1}};
  auto req = TargetBench::login_req();
  EXPECT_EQ(rejected(bench.log_in(req, ErrorCode::Io)), 0x0001'0000U);
  EXPECT_EQ(rejected(bench.log_in(req, ErrorCode::OutOfMemory)), 0x0001'0001U);
  std::ignore = bench.target.set_enabled(TargetBench::kPort, false);
  EXPECT_EQ(rejected(bench.log_in(req)), 0x0001'0001U);
  std::ignore = bench.target.set_enabled(TargetBench::kPort, true);
  req.requested_iu_length = 63;
  EXPECT_EQ(rejected(bench.log_in(req)), 0x0001'0002U);
  req.requested_iu_length = 1U << 20;
  EXPECT_EQ(rejected(bench.log_in(req)), 0x0001'0002U);
  req = TargetBench::login_req();
  req.target_port_id[0] = std::byte{1};
  EXPECT_EQ(rejected(bench.log_in(req)), 0x0001'0003U);
  req = TargetBench::login_req();
  req.required_formats |= 0x10;
  EXPECT_EQ(rejected(bench.log_in(req)), 0x0001'0004U);
  req = TargetBench::login_req();
  req.multichannel = static_cast<wire::SrpMultichannel>(2);
  EXPECT_EQ(rejected(bench.log_in(req)), 0x0001'0005U);
  std::ignore = bench.target.allow_anybody(TargetBench::kPort, false);
  EXPECT_EQ(rejected(bench.log_in()), 0x0001'0006U);
  std::ignore = bench.target.allow(TargetBench::kPort, testing::port_id(1));
  EXPECT_EQ(rejected(bench.log_in()), 0U);
  EXPECT_EQ(bench.target.channels(), 1U);
  std::ignore = bench.target.allow(TargetBench::kPort, testing::port_id(2));
  EXPECT_EQ(rejected(bench.log_in(TargetBench::login_req(2))), 0x0001'0006U);  // the limit
}

TEST(SrpLogin, ASecondLoginEndsTheFirstUnlessItIsMultichannel) {  // T-SRPT-7
  TargetBench bench;
  const auto first = bench.connect();
  bench.disk.device.holds = true;
  bench.request(first, TargetBench::command(5, cdb10(0x2A, 0, 0)));
  auto busy = TargetBench::command(6, cdb10(0x28, 0, 1));
  const Segment buffer = bench.memory.allocate(512);
  busy.data_in = {.format = wire::SrpBufferFormat::Direct, .descriptors = {buffer}, .length = 512};
  bench.request(first, busy);
  ASSERT_EQ(bench.disk.device.waiting(), 1U);

  auto req = TargetBench::login_req();
  req.multichannel = wire::SrpMultichannel::Independent;
  const auto second = bench.log_in(req);
  EXPECT_EQ(wire::parse<wire::SrpLoginRsp>(*second.connection->rep)->multichannel,
            wire::SrpMultichannelResult::Maintained);
  EXPECT_EQ(bench.channel(first).state(), ChannelState::Live);

  const auto third = bench.log_in();
  EXPECT_TRUE(first.connection->has_failed);
  EXPECT_TRUE(second.connection->has_failed);
  EXPECT_FALSE(third.connection->rep.has_value());  // a task of the old nexus still runs
  bench.disk.device.release();
  ASSERT_TRUE(third.connection->rep.has_value());
  EXPECT_EQ(wire::parse<wire::SrpLoginRsp>(*third.connection->rep)->multichannel,
            wire::SrpMultichannelResult::Terminated);
  bench.settle();
  EXPECT_EQ(bench.target.channel(first.id), nullptr);
  EXPECT_EQ(bench.target.channels(), 1U);
}

TEST(SrpTarget, TakingANameOffTheListEndsItsSessionFirst) {  // T-SRPT-8
  TargetBench bench;
  std::ignore = bench.target.allow(TargetBench::kPort, testing::port_id(1));
  const auto login = bench.connect();
  const auto other = bench.connect(TargetBench::login_req(2));
  std::ignore = bench.target.allow(TargetBench::kPort, testing::port_id(2));
  std::ignore = bench.target.allow_anybody(TargetBench::kPort, false);
  bench.disk.device.holds = true;
  auto read = TargetBench::command(6, cdb10(0x28, 0, 1));
  const Segment buffer = bench.memory.allocate(512);
  read.data_in = {.format = wire::SrpBufferFormat::Direct, .descriptors = {buffer}, .length = 512};
  bench.request(login, read);
  int done = 0;
  ASSERT_TRUE(
      bench.target.withdraw(TargetBench::kPort, testing::port_id(1), [&] { ++done; }).has_value());
  bench.settle();
  EXPECT_EQ(done, 0);  // the device still has its buffer
  bench.disk.device.release();
  bench.settle();
  EXPECT_EQ(done, 1);
  EXPECT_EQ(bench.target.channel(login.id), nullptr);
  EXPECT_EQ(bench.channel(other).state(), ChannelState::Live);
  EXPECT_EQ(bench.memory.bytes_written, 0U);
  EXPECT_FALSE(bench.target.withdraw(TargetBench::kPort, testing::port_id(1), [] {}).has_value());
}

TEST(SrpTarget, GroupsHaveListsOfTheirOwn) {  // R-SRPT-21
  TargetBench bench;
  Target& target = bench.target;
  std::ignore = target.allow_anybody(TargetBench::kPort, false);
  ASSERT_TRUE(target.add_group(TargetBench::kPort, 2).has_value());
  EXPECT_EQ(target.add_group(TargetBench::kPort, 2).error().code, ErrorCode::Exists);
  EXPECT_EQ(target.allow(TargetBench::kPort, testing::port_id(3), 7).error().code,
            ErrorCode::NotFound);
  ASSERT_TRUE(target.allow(TargetBench::kPort, testing::port_id(1)).has_value());
  ASSERT_TRUE(target.allow(TargetBench::kPort, testing::port_id(1), 2).has_value());
  ASSERT_TRUE(target.allow(TargetBench::kPort, testing::port_id(2), 2).has_value());
  const auto first = bench.connect(TargetBench::login_req(1));
  const auto second = bench.connect(TargetBench::login_req(2));
  EXPECT_EQ(rejected(bench.log_in(TargetBench::login_req(3))), 0x0001'0006U);
  const auto status = target.channel_status();
  ASSERT_EQ(status.size(), 2U);
  EXPECT_EQ(status[0].group, 1) << "the lowest whose list has it";
  EXPECT_EQ(status[1].group, 2);

  // A group that is not enabled lets nobody in; who is in stays.
  ASSERT_TRUE(target.set_group_enabled(TargetBench::kPort, 2, false).has_value());
  EXPECT_EQ(bench.channel(second).state(), ChannelState::Live);
  auto again = TargetBench::login_req(2);
  again.multichannel = wire::SrpMultichannel::Independent;
  EXPECT_EQ(rejected(bench.log_in(again)), 0x0001'0006U);
  ASSERT_TRUE(target.set_group_enabled(TargetBench::kPort, 2, true).has_value());
  EXPECT_EQ(rejected(bench.log_in(again)), 0U);

  // A name that goes from the second list ends no session of the first, though it is the same.
  int done = 0;
  ASSERT_TRUE(
      target.withdraw(TargetBench::kPort, testing::port_id(1), [&] { ++done; }, 2).has_value());
  EXPECT_EQ(done, 1);
  EXPECT_EQ(bench.channel(first).state(), ChannelState::Live);
  ASSERT_TRUE(target.remove_group(TargetBench::kPort, 2, [&] { ++done; }).has_value());
  bench.settle();
  EXPECT_EQ(done, 2);
  EXPECT_EQ(target.channel(second.id), nullptr);
  EXPECT_EQ(bench.channel(first).state(), ChannelState::Live);
  EXPECT_EQ(target.channels(), 1U);
  EXPECT_EQ(target.remove_group(TargetBench::kPort, 2, [] {}).error().code, ErrorCode::NotFound);
}

TEST(SrpTarget, APortHasSeveralNames) {  // R-SRPT-21
  TargetBench bench;
  auto req = TargetBench::login_req();
  req.target_port_id = testing::port_id(0xBB);
  EXPECT_EQ(rejected(bench.log_in(req)), 0x0001'0003U);
  ASSERT_TRUE(bench.target.add_name(TargetBench::kPort, testing::port_id(0xBB)).has_value());
  EXPECT_EQ(bench.target.add_name(TargetBench::kPort, testing::port_id(0xBB)).error().code,
            ErrorCode::Exists);
  EXPECT_EQ(rejected(bench.log_in(req)), 0U);
  EXPECT_FALSE(bench.target.add_name("none", testing::port_id(0xCC)).has_value());
}

/// A READ or WRITE of blocks, by one direct descriptor.
[[nodiscard]] wire::SrpCommandUnit transfer(TargetBench& bench, std::uint64_t tag,
                                            std::uint8_t operation, std::size_t blocks,
                                            std::uint64_t lba = 0) {
  auto unit = TargetBench::command(tag, cdb10(operation, lba, blocks));
  const std::size_t bytes = blocks * 512;
  const Segment buffer = bench.memory.allocate(bytes);
  wire::SrpDataBuffer& data = operation == 0x28 ? unit.data_in : unit.data_out;
  data = {.format = wire::SrpBufferFormat::Direct, .descriptors = {buffer}, .length = bytes};
  return unit;
}

TEST(SrpTarget, AHundredBusySessionsEndTogether) {  // T-SRPT-10
  TargetBench bench;
  bench.disk.device.holds = true;
  constexpr unsigned kSessions = 100;
  std::vector<TargetBench::Login> logins;
  for (unsigned i = 0; i < kSessions; ++i) {
    logins.push_back(bench.connect(TargetBench::login_req(static_cast<std::uint8_t>(i + 1))));
  }
  for (unsigned i = 0; i < kSessions; ++i) {
    for (std::uint64_t tag = 0; tag < 6; ++tag) {
      bench.request(logins[i], transfer(bench, tag, tag % 2 == 0 ? 0x28 : 0x2A, 1, i * 6 + tag));
    }
    if (i % 2 == 0) {  // its WRITEs have their data, the other sessions' have not
      while (bench.report_one(logins[i].id, *logins[i].connection)) {
      }
    }
  }
  // All READs, and half of the WRITEs.
  ASSERT_EQ(bench.disk.device.waiting(), kSessions * 3U + kSessions / 2 * 3U);
  bool done = false;
  ASSERT_TRUE(bench.target.release_port(TargetBench::kPort, [&] { done = true; }).has_value());
  EXPECT_TRUE(bench.log_in().refused.has_value());
  for (int round = 0; round < 10 && !done; ++round) {
    bench.settle();
    while (bench.disk.device.release()) {
    }
  }
  EXPECT_TRUE(done);
  bench.settle();
  EXPECT_EQ(bench.target.channels(), 0U);
  EXPECT_EQ(bench.disk.target.nexuses(), 0U);
  EXPECT_EQ(bench.disk.unit->tasks(), 0U);
}

TEST(SrpTarget, CountsWhatItsChannelsDidAlsoWhenTheyHaveEnded) {
  TargetBench bench;
  const auto login = bench.connect();
  const ChannelCounters before = bench.channel(login).counters();
  bench.request(login, transfer(bench, 1, 0x2A, 4));
  bench.request(login, transfer(bench, 2, 0x28, 2));
  bench.request(login, transfer(bench, 3, 0x28, 1));
  bench.settle();
  auto beyond = transfer(bench, 4, 0x28, 1);
  beyond.header.cdb[2] = std::byte{0x7F};  // an LBA that the disk does not have
  bench.request(login, beyond);
  bench.settle();
  bench.manage(login, wire::SrpTaskFunction::AbortTask, 5, 1);
  bench.manage(login, wire::SrpTaskFunction::AbortTaskSet, 6);
  bench.manage(login, wire::SrpTaskFunction::LogicalUnitReset, 7);
  bench.manage(login, wire::SrpTaskFunction::ClearAca, 8);
  bench.settle();
  const ChannelCounters counters = bench.channel(login).counters();
  EXPECT_EQ(counters.commands - before.commands, 8U);
  EXPECT_EQ(counters.reads, 2U) << "what failed is none";
  EXPECT_EQ(counters.read_bytes, 3 * 512U);
  EXPECT_EQ(counters.writes, 1U);
  EXPECT_EQ(counters.written_bytes, 4 * 512U);
  EXPECT_EQ(counters.aborts, 2U);
  EXPECT_EQ(counters.resets, 1U);

  const auto other = bench.connect(TargetBench::login_req(2));
  bench.request(other, transfer(bench, 1, 0x28, 1));
  bench.settle();
  bench.channel(login).close();
  bench.settle();
  ASSERT_EQ(bench.target.channels(), 1U);
  const TargetCounters sum = bench.target.counters();
  EXPECT_EQ(sum.channels.reads, bench.channel(other).counters().reads + 2);
  EXPECT_EQ(sum.channels.written_bytes, 4 * 512U);
  EXPECT_EQ(sum.logins, 2U);
  EXPECT_TRUE(sum.refusals.empty());

  auto wrong = TargetBench::login_req(3);
  wrong.target_port_id[0] = std::byte{1};
  std::ignore = bench.log_in(wrong);
  std::ignore = bench.log_in(wrong);
  EXPECT_EQ(bench.target.counters().refusals, (std::map<Reason, std::uint64_t>{
                                                  {Reason::UnableToAssociateChannel, 2}
  }));
  EXPECT_EQ(bench.target.counters().logins, 2U);
}

TEST(SrpTarget, ShowsWhoIsLoggedInWithCreditsAndWhatIsUnderWay) {
  TargetBench bench;
  const auto login = bench.connect();
  bench.disk.device.holds = true;
  bench.request(login, transfer(bench, 1, 0x28, 1));
  const auto waiting = bench.log_in(TargetBench::login_req(2));  // no RTU yet
  bench.request(waiting, transfer(bench, 1, 0x28, 1));
  const auto all = bench.target.channel_status();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].initiator.port_id, testing::port_id(1));
  EXPECT_EQ(all[0].state, ChannelState::Live);
  EXPECT_EQ(all[0].limit, 8);
  EXPECT_EQ(all[0].credits, 7);
  EXPECT_EQ(all[0].outstanding, 1);
  EXPECT_EQ(all[0].waiting, 0U);
  EXPECT_EQ(all[1].initiator.port_id, testing::port_id(2));
  EXPECT_EQ(all[1].state, ChannelState::Connecting);
  EXPECT_EQ(all[1].waiting, 1U);
  bench.disk.device.release();
  bench.channel(waiting).close();
  bench.settle();
  EXPECT_EQ(bench.target.channel_status().size(), 1U);
}

TEST(SrpTarget, PortsAreFoundByNameAndCheckedFirst) {
  TargetBench bench;
  EXPECT_FALSE(bench.target.add_port({.name = TargetBench::kPort}).has_value());
  EXPECT_FALSE(bench.target.add_port({.name = "few", .request_limit = 1}).has_value());
  EXPECT_FALSE(bench.target.set_enabled("none", true).has_value());
  EXPECT_TRUE(bench.target.add_port({.name = "second"}).has_value());
  EXPECT_EQ(bench.target.channels_of("second"), 0U);
}

}  // namespace
}  // namespace weft::srp
