#include "ulp/srp/channel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/random.h"
#include "ulp/srp/testing/bench_channel.h"

namespace weft::srp {
namespace {

using scsi::testing::cdb10;
using scsi::testing::pattern;
using testing::Octets;
using testing::Posted;
using testing::TargetBench;
using wire::SrpBufferFormat;
using wire::SrpDataBuffer;

constexpr std::uint8_t kCheckCondition = 0x02;

/// A buffer of `bytes` in pieces, as an initiator describes it.
struct Buffer {
  std::vector<Segment> pieces;
  SrpDataBuffer descriptor;
};

[[nodiscard]] Buffer make_buffer(TargetBench& bench, std::size_t bytes, std::size_t pieces,
                                 std::size_t listed) {
  Buffer buffer;
  for (std::size_t i = 0; i < pieces; ++i) {
    buffer.pieces.push_back(bench.memory.allocate(bytes / pieces));
  }
  buffer.descriptor.length = bytes;
  if (pieces == 1) {
    buffer.descriptor.format = SrpBufferFormat::Direct;
    buffer.descriptor.descriptors = buffer.pieces;
    return buffer;
  }
  const Octets table = wire::to_octets(buffer.pieces);
  buffer.descriptor.format = SrpBufferFormat::Indirect;
  buffer.descriptor.table = bench.memory.allocate(table.size());
  copy_bytes(bench.memory.at(buffer.descriptor.table), table);
  buffer.descriptor.descriptors.assign(buffer.pieces.begin(),
                                       buffer.pieces.begin() + static_cast<std::ptrdiff_t>(listed));
  return buffer;
}

void fill(TargetBench& bench, const Buffer& buffer, ByteSpan data) {
  for (const Segment& piece : buffer.pieces) {
    copy_bytes(bench.memory.at(piece), data.first(piece.length));
    data = data.subspan(piece.length);
  }
}

[[nodiscard]] Octets contents(TargetBench& bench, const Buffer& buffer) {
  Octets data;
  for (const Segment& piece : buffer.pieces) {
    const auto octets = bench.memory.at(piece);
    data.insert(data.end(), octets.begin(), octets.end());
  }
  return data;
}

TEST(SrpChannel, MovesDataByEveryKindOfDescriptor) {  // T-SRPT-3, first half
  TargetBench bench;
  const auto login = bench.connect();
  std::uint64_t tag = 10;
  for (const std::size_t kib : {4U, 64U, 1024U}) {
    const std::size_t bytes = std::size_t{kib} * 1024;
    struct Shape {
      std::size_t pieces;
      std::size_t listed;
    };
    // Direct; indirect in the IU; in the initiator's memory, partly and wholly.
    for (const Shape shape : {
             Shape{1,  1},
             Shape{4,  4},
             Shape{8,  3},
             Shape{16, 0}
    }) {
      const Octets data = pattern(bytes, static_cast<unsigned>(tag));
      const Buffer out = make_buffer(bench, bytes, shape.pieces, shape.listed);
      fill(bench, out, data);
      auto write = TargetBench::command(++tag, cdb10(0x2A, 0, bytes / 512));
      write.data_out = out.descriptor;
      bench.request(login, write);
      bench.settle();
      auto response = bench.response(login);
      ASSERT_TRUE(response.has_value());
      EXPECT_EQ(response->header.status, 0) << bytes << " " << shape.pieces;

      const Buffer in = make_buffer(bench, bytes, shape.pieces, shape.listed);
      auto read = TargetBench::command(++tag, cdb10(0x28, 0, bytes / 512));
      read.data_in = in.descriptor;
      bench.request(login, read);
      bench.settle();
      response = bench.response(login);
      ASSERT_TRUE(response.has_value());
      EXPECT_EQ(response->header.tag, tag);
      EXPECT_EQ(response->header.status, 0);
      EXPECT_EQ(contents(bench, in), data) << bytes << " " << shape.pieces;
    }
  }
  const Octets data = pattern(4096, 99);
  auto write = TargetBench::command(++tag, cdb10(0x2A, 0, 8));
  write.data_out = {.format = SrpBufferFormat::Immediate, .length = data.size()};
  write.immediate_data = data;
  const auto read_before = bench.memory.bytes_read;
  bench.request(login, write);
  bench.settle();
  EXPECT_EQ(bench.response(login)->header.status, 0);
  EXPECT_EQ(bench.memory.bytes_read, read_before);
  const Buffer in = make_buffer(bench, 4096, 1, 1);
  auto read = TargetBench::command(++tag, cdb10(0x28, 0, 8));
  read.data_in = in.descriptor;
  bench.request(login, read);
  bench.settle();
  EXPECT_EQ(contents(bench, in), data);
}

/// Blocks of a disk in memory are sent from there, as they are when the command is executed.
TEST(SrpChannel, SendsFromADiskInMemoryWhatIsWrittenAnewMeanwhile) {
  constexpr std::size_t kBytes = 128 * 1024;
  TargetBench bench;
  const auto login = bench.connect();
  const Octets before = pattern(kBytes, 1);
  const Buffer out = make_buffer(bench, kBytes, 1, 1);
  fill(bench, out, before);
  auto write = TargetBench::command(3, cdb10(0x2A, 0, kBytes / 512));
  write.data_out = out.descriptor;
  bench.request(login, write);
  bench.settle();

  const Buffer in = make_buffer(bench, kBytes, 1, 1);
  auto read = TargetBench::command(4, cdb10(0x28, 0, kBytes / 512));
  read.data_in = in.descriptor;
  bench.request(login, read);
  ASSERT_EQ(login.connection->posted.size(), 1U);
  const Posted& sent = login.connection->posted.front();
  ASSERT_EQ(sent.pieces.size(), kBytes / scsi::RamDevice::kChunkBytes);
  fill(bench, out, pattern(kBytes, 2));
  write.header.tag = 5;
  bench.request(login, write);
  auto& posted = login.connection->posted;
  ASSERT_EQ(posted.size(), 2U) << "the response, and the READ of what is to be written";
  std::swap(posted.front(), posted.back());
  ASSERT_TRUE(bench.report_one(login.id, *login.connection));
  EXPECT_TRUE(posted.front().has_kept_its_data());
  bench.settle();  // which looks at it once more
  EXPECT_EQ(contents(bench, in), before);
}

TEST(SrpChannel, BadDescriptorsEndACommandAndNotTheConnection) {  // T-SRPT-3, second half
  TargetBench bench;
  const auto login = bench.connect();
  std::vector<SrpDataBuffer> bad;
  bad.push_back(make_buffer(bench, 4096, 8, 8).descriptor);
  bad.back().length = 5000;  // not the sum
  bad.push_back(make_buffer(bench, 4096, 8, 0).descriptor);
  bad.back().length = 5000;  // not the sum of the table
  bad.push_back(make_buffer(bench, 4096, 1, 1).descriptor);
  bad.back().length = bad.back().descriptors[0].length = 1U << 30;  // more than the port moves
  bad.push_back(make_buffer(bench, 4096, 8, 8).descriptor);
  bad.back().table.length = 64;  // fewer than are listed
  std::uint64_t tag = 100;
  for (const SrpDataBuffer& buffer : bad) {
    auto write = TargetBench::command(++tag, cdb10(0x2A, 0, 8));
    write.data_out = buffer;
    bench.request(login, write);
    bench.settle();
    const auto response = bench.response(login);
    ASSERT_TRUE(response.has_value()) << tag;
    EXPECT_EQ(response->header.tag, tag);
    EXPECT_EQ(response->header.status, kCheckCondition);
    EXPECT_EQ(std::to_integer<int>(response->sense[12]), 0x0E);
    EXPECT_EQ(bench.channel(login).state(), ChannelState::Live);
  }
  EXPECT_EQ(bench.channel(login).counters().refused_descriptors, bad.size());
  EXPECT_EQ(bench.channel(login).request_limit().available(), 8);
}

TEST(SrpChannel, CreditsAddUp) {  // T-SRPT-4, at the target
  TargetBench bench;
  const auto login = bench.connect();
  Random random{5};
  std::int64_t credit = 8;
  std::int64_t granted = 0;
  std::int64_t requests = 0;
  bench.disk.device.holds = true;
  const auto take_credits = [&] {
    for (const Octets& unit : login.connection->units) {
      const auto decoded = wire::srp_tables::decode_unit(unit);
      const auto delta = static_cast<std::int32_t>(decoded.numbers.at("REQUEST LIMIT DELTA"));
      EXPECT_GE(delta, 0);
      credit += delta;
      granted += delta;
      if (decoded.name == "SRP_CRED_REQ") {
        bench.channel(login).handle_receive(
            wire::to_unit(wire::SrpCredRsp{.tag = decoded.numbers.at("TAG")}));
      }
    }
    login.connection->units.clear();
  };
  for (int i = 0; i < 2000; ++i) {
    if (credit > 0 && random.chance(1, 2)) {
      --credit;
      ++requests;
      if (random.chance(1, 8)) {
        bench.manage(login, wire::SrpTaskFunction::AbortTaskSet,
                     1'000'000U + static_cast<std::uint64_t>(i));
      } else {
        bench.request(
            login, TargetBench::command(static_cast<std::uint64_t>(1000 + i), cdb10(0x35, 0, 0)));
      }
    } else if (random.chance(1, 2)) {
      bench.disk.device.release(random.below(1 + bench.disk.device.waiting()));
    } else {
      bench.settle();
      take_credits();
    }
  }
  while (bench.disk.device.release()) {
  }
  bench.settle();
  take_credits();
  bench.settle();
  take_credits();
  EXPECT_EQ(credit, 8);
  EXPECT_EQ(granted, requests);
  EXPECT_EQ(bench.channel(login).counters().violations, 0U);
}

TEST(SrpChannel, ALimitMaySinkAndRise) {  // R-SRPT-19: dynamic REQUEST LIMIT DELTA
  TargetBench bench;
  const auto login = bench.connect();
  Channel& channel = bench.channel(login);
  channel.set_request_limit(2);
  for (std::uint64_t tag = 1; tag <= 6; ++tag) {
    bench.request(login, TargetBench::command(tag, cdb10(0x00, 0, 0)));
    bench.settle();
    EXPECT_EQ(bench.response(login)->header.request_limit_delta, 0);
  }
  EXPECT_EQ(channel.request_limit().available(), 2);
  channel.set_request_limit(8);
  bench.settle();
  ASSERT_EQ(login.connection->units.size(), 1U);
  const auto credit = wire::parse<wire::SrpCredReq>(login.connection->units.front());
  EXPECT_EQ(credit->opcode, wire::SrpOpcode::CredReq);
  EXPECT_EQ(credit->request_limit_delta, 6);
  channel.handle_receive(wire::to_unit(wire::SrpCredRsp{.tag = credit->tag}));
  EXPECT_EQ(channel.counters().violations, 0U);
}

TEST(SrpChannel, CommandsBeforeTheRtuAreExecutedInOrder) {  // T-SRPT-5
  TargetBench bench;
  const auto login = bench.log_in();
  for (std::uint64_t tag = 1; tag <= 5; ++tag) {
    bench.request(login, TargetBench::command(tag, cdb10(0x00, 0, 0)));
  }
  EXPECT_EQ(bench.channel(login).waiting(), 5U);
  bench.settle();
  EXPECT_TRUE(login.connection->units.empty());
  bench.channel(login).handle_rtu();  // COMM_EST is taken for one: target_events_test.cc, and live
  EXPECT_EQ(login.connection->ready, 1);
  bench.settle();
  for (std::uint64_t tag = 1; tag <= 5; ++tag) {
    const auto response = bench.response(login);
    ASSERT_TRUE(response.has_value());
    EXPECT_EQ(response->header.tag, tag);
  }
}

TEST(SrpChannel, ARequestWaitsForASlotWhoseSendIsNotReported) {  // R-SRPT-15, Q30
  TargetBench bench;
  const auto login = bench.connect();
  for (std::uint64_t tag = 1; tag <= 12; ++tag) {  // each response grants the next one's credit
    bench.request(login, TargetBench::command(tag, cdb10(0x00, 0, 0)));
  }
  EXPECT_EQ(bench.channel(login).waiting(), 4U);
  EXPECT_EQ(login.connection->units.size(), 8U);
  bench.report_one(login.id, *login.connection);
  EXPECT_EQ(login.connection->units.size(), 9U);
  bench.settle();
  for (std::uint64_t tag = 1; tag <= 12; ++tag) {
    EXPECT_EQ(bench.response(login)->header.tag, tag);
  }
}

/// Asks for a block to be written, with tag 3: its data is being read.
void begin_write(TargetBench& bench, const TargetBench::Login& login) {
  auto write = TargetBench::command(3, cdb10(0x2A, 0, 1));
  write.data_out = make_buffer(bench, 512, 1, 1).descriptor;
  bench.request(login, write);
}

TEST(SrpChannel, AnAbortWaitsUntilTheDataIsNotReadAnyMore) {  // R-SRPT-16, R-SRPT-18
  TargetBench bench;
  const auto login = bench.connect();
  begin_write(bench, login);
  bench.manage(login, wire::SrpTaskFunction::AbortTask, 4, 3);
  EXPECT_TRUE(login.connection->units.empty());
  bench.report_one(login.id, *login.connection);  // the READ
  const auto response = bench.response(login);
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(response->header.tag, 4U);
  EXPECT_EQ(response->response_code, wire::SrpResponseCode::Complete);
  EXPECT_EQ(response->header.request_limit_delta, 2);  // the aborted command's, too
  EXPECT_EQ(bench.disk.device.submitted[scsi::BlockOperation::Write], 0U);
  bench.settle();
  EXPECT_FALSE(bench.response(login).has_value());
}

TEST(SrpChannel, AResetEndsWhatOtherChannelsStillRead) {  // R-SRPT-16
  for (const auto function :
       {wire::SrpTaskFunction::LogicalUnitReset, wire::SrpTaskFunction::ClearTaskSet}) {
    TargetBench bench;
    const auto writer = bench.connect(TargetBench::login_req(1));
    const auto other = bench.connect(TargetBench::login_req(2));
    begin_write(bench, writer);
    bench.manage(other, function, 4);
    EXPECT_TRUE(other.connection->units.empty()) << "the writer's memory is still read";
    bench.report_one(writer.id, *writer.connection);
    EXPECT_EQ(bench.response(other)->response_code, wire::SrpResponseCode::Complete);
    EXPECT_EQ(bench.disk.device.submitted[scsi::BlockOperation::Write], 0U);
    bench.settle();
    EXPECT_FALSE(bench.response(writer).has_value()) << "it hears of it by a unit attention";
  }
}

TEST(SrpChannel, AnInitiatorsTaskSetIsItsOwn) {  // R-SRPT-16
  TargetBench bench;
  const auto writer = bench.connect(TargetBench::login_req(1));
  const auto other = bench.connect(TargetBench::login_req(2));
  begin_write(bench, writer);
  bench.manage(other, wire::SrpTaskFunction::AbortTaskSet, 4);
  EXPECT_EQ(bench.response(other)->response_code, wire::SrpResponseCode::Complete);
  bench.settle();
  EXPECT_EQ(bench.response(writer)->header.status, 0);
  EXPECT_EQ(bench.disk.device.submitted[scsi::BlockOperation::Write], 1U);
}

TEST(SrpChannel, AResetIsAnsweredThoughTheOtherChannelEnds) {  // R-SRPT-16
  TargetBench bench;
  const auto writer = bench.connect(TargetBench::login_req(1));
  const auto other = bench.connect(TargetBench::login_req(2));
  begin_write(bench, writer);
  bench.manage(other, wire::SrpTaskFunction::LogicalUnitReset, 4);
  bench.channel(writer).close();
  EXPECT_TRUE(other.connection->units.empty());
  bench.settle();
  EXPECT_EQ(bench.target.channel(writer.id), nullptr);
  EXPECT_EQ(bench.response(other)->response_code, wire::SrpResponseCode::Complete);
}

TEST(SrpChannel, UnknownFunctionsAreNotSupported) {  // R-SRPT-16
  TargetBench bench;
  const auto login = bench.connect();
  bench.manage(login, static_cast<wire::SrpTaskFunction>(0x80), 4);
  EXPECT_EQ(bench.response(login)->response_code, wire::SrpResponseCode::NotSupported);
  bench.manage(login, wire::SrpTaskFunction::LogicalUnitReset, 5);
  EXPECT_EQ(bench.response(login)->response_code, wire::SrpResponseCode::Complete);
  bench.settle();
}

TEST(SrpChannel, AFailedReadAbortsItsCommand) {  // R-SRPT-18
  TargetBench bench;
  const auto login = bench.connect();
  const Buffer out = make_buffer(bench, 512, 1, 1);
  bench.memory.invalidate(out.pieces[0].key);
  auto write = TargetBench::command(3, cdb10(0x2A, 0, 1));
  write.data_out = out.descriptor;
  bench.request(login, write);
  bench.report_one(login.id, *login.connection);
  EXPECT_EQ(bench.response(login)->header.status, kCheckCondition);
  EXPECT_EQ(bench.channel(login).counters().failed_reads, 1U);
  EXPECT_EQ(bench.disk.device.submitted[scsi::BlockOperation::Write], 0U);
  bench.settle();
  EXPECT_EQ(bench.target.channel(login.id), nullptr);
}

TEST(SrpChannel, AStatusGoesAloneWhereItsDataCannot) {  // R-SRPT-20
  TargetBench bench;
  const auto login = bench.connect();
  const std::uint64_t reads = bench.channel(login).counters().reads;
  auto read = TargetBench::command(3, cdb10(0x28, 0, 1));
  read.data_in = make_buffer(bench, 512, 1, 1).descriptor;
  login.connection->write_error = ErrorCode::OutOfMemory;
  bench.request(login, read);
  bench.settle();
  const auto response = bench.response(login);
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(response->header.tag, 3U);
  EXPECT_EQ(response->header.status, kCheckCondition);
  EXPECT_EQ(response->header.request_limit_delta, 1) << "its credit comes back";
  EXPECT_EQ(response->header.data_in_residual, 512U) << "nothing came";
  EXPECT_EQ(bench.memory.bytes_written, 0U);
  EXPECT_EQ(bench.channel(login).counters().failed_writes, 1U);
  EXPECT_EQ(bench.channel(login).counters().reads, reads);
  EXPECT_EQ(bench.channel(login).state(), ChannelState::Live);

  login.connection->write_error.reset();  // the channel goes on
  bench.request(login, read);
  bench.settle();
  EXPECT_EQ(bench.response(login)->header.status, 0);
  EXPECT_EQ(bench.channel(login).counters().reads, reads + 1);

  login.connection->write_error = ErrorCode::ShutDown;  // of a QP that has failed: no status either
  bench.request(login, read);
  bench.settle();
  EXPECT_FALSE(bench.response(login).has_value());
  EXPECT_EQ(bench.target.channel(login.id), nullptr);
}

TEST(SrpChannel, ResponsesCarryResidualsAndSense) {  // R-SRPT-19
  TargetBench bench;
  const auto login = bench.connect();
  const Buffer in = make_buffer(bench, 1024, 1, 1);
  auto read = TargetBench::command(3, cdb10(0x28, 0, 1));
  read.data_in = in.descriptor;
  bench.request(login, read);
  auto response = bench.response(login);
  EXPECT_EQ(response->header.flags, wire::SrpResponseFlag::DataInUnder);
  EXPECT_EQ(response->header.data_in_residual, 512U);
  const Buffer small = make_buffer(bench, 512, 1, 1);
  read.data_in = small.descriptor;
  read.header.cdb[8] = std::byte{2};
  bench.request(login, read);
  response = bench.response(login);
  EXPECT_EQ(response->header.flags, wire::SrpResponseFlag::DataInOver);
  EXPECT_EQ(response->header.data_in_residual, 512U);
  bench.request(login, TargetBench::command(4, cdb10(0xFF, 0, 0)));
  response = bench.response(login);
  EXPECT_EQ(response->header.status, kCheckCondition);
  EXPECT_FALSE(response->sense.empty());
  bench.settle();
}

TEST(SrpChannel, CutsTheSenseDataOfAnEventToWhatTheInitiatorReceives) {
  TargetBench bench{PortOptions{.max_rsp_size = 64}};
  const auto login = bench.connect();
  const Octets sense(100, std::byte{0x70});
  ASSERT_TRUE(bench.channel(login).report_event(0, sense).has_value());
  EXPECT_EQ(login.connection->units.back().size(), 64U);
  bench.settle();
}

TEST(SrpChannel, LogoutsEndAChannelInOrder) {
  TargetBench bench;
  const auto first = bench.connect();
  bench.channel(first).handle_receive(wire::to_unit(wire::SrpILogout{.tag = 1}));
  EXPECT_EQ(first.connection->dreqs, 1);
  EXPECT_EQ(bench.channel(first).state(), ChannelState::Disconnecting);
  bench.channel(first).handle_drep();
  EXPECT_EQ(bench.channel(first).state(), ChannelState::Draining);
  bench.settle();
  EXPECT_EQ(bench.target.channel(first.id), nullptr);

  const auto second = bench.connect();
  bench.channel(second).disconnect();
  ASSERT_EQ(second.connection->units.size(), 1U);
  EXPECT_EQ(*wire::srp_opcode(second.connection->units.front()), wire::SrpOpcode::TLogout);
  EXPECT_EQ(second.connection->dreqs, 1);
}

TEST(SrpChannel, ReportsEventsOneAtATime) {
  TargetBench bench;
  const auto login = bench.connect();
  Channel& channel = bench.channel(login);
  const Octets sense(18, std::byte{0x70});
  ASSERT_TRUE(channel.report_event(7, sense).has_value());
  EXPECT_FALSE(channel.report_event(7, sense).has_value());
  const auto event = wire::parse_srp_aer(login.connection->units.front());
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->header.lun, 7U);
  EXPECT_EQ(event->sense.size(), sense.size());
  bench.settle();
  EXPECT_EQ(channel.report_event(7, sense).error().code, ErrorCode::Busy);
  channel.handle_receive(wire::to_unit(wire::SrpAerRsp{.tag = event->header.tag}));
  EXPECT_TRUE(channel.report_event(7, sense).has_value());
}

TEST(SrpChannel, AnInitiatorThatLiesLosesItsChannel) {
  const std::vector<std::vector<Octets>> lies{
      {{}},
      {{std::byte{0x99}}},
      {Octets(20, std::byte{2})}, // a command that is cut off
      {wire::to_unit(wire::SrpRsp{})}, // only targets say that
      {wire::to_unit(TargetBench::login_req())},
      {wire::to_unit(wire::SrpCredRsp{.tag = 5})}, // nobody asked
      {wire::to_unit(wire::SrpAerRsp{.tag = 5})},
      {Octets(9000, std::byte{2})}, // longer than the login allows
      {17, wire::to_unit(TargetBench::command(1, cdb10(0x35, 0, 0)), 68)}, // without credits
  };
  for (const auto& units : lies) {
    TargetBench bench;
    const auto login = bench.connect();
    const auto other = bench.connect(TargetBench::login_req(2));
    bench.disk.device.holds = true;
    for (const Octets& unit : units) {
      bench.channel(login).handle_receive(unit);
    }
    EXPECT_EQ(bench.channel(login).counters().violations, 1U) << units.front().size();
    EXPECT_EQ(bench.channel(login).state(), ChannelState::Disconnecting);
    EXPECT_EQ(bench.channel(other).state(), ChannelState::Live);
    bench.disk.device.holds = false;
    while (bench.disk.device.release()) {
    }
  }
}

TEST(SrpChannel, CloseIsTrueForWhoeverBeginsToDrain) {  // R-SRPT-11
  TargetBench bench;
  const auto login = bench.connect();
  EXPECT_TRUE(bench.channel(login).close());
  EXPECT_FALSE(bench.channel(login).close());
  EXPECT_EQ(bench.channel(login).state(), ChannelState::Draining);
}

}  // namespace
}  // namespace weft::srp
