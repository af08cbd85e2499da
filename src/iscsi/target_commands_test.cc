// SCSI commands over a target's connection: every way for data to come and go (RFC 7143 §4.2.5,
// §11.3, §11.4, §11.7, §11.8).

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "iscsi/testing/scripted_initiator.h"
#include "wire/iscsi/reject.h"

namespace weft::iscsi {
namespace {

using testing::Connection;
using testing::Fixture;
using testing::pattern;
using wire::iscsi::DataIn;
using wire::iscsi::DataOut;
using wire::iscsi::kNoTag;
using wire::iscsi::R2t;
using wire::iscsi::Reject;
using wire::iscsi::ScsiCommand;
using wire::iscsi::ScsiResponse;

/// Answers an R2T with Data-Out PDUs of at most `segment` octets.
void answer_r2t(Connection& connection, const R2t& wanted, ByteSpan data, std::size_t segment) {
  DataOut part;
  part.initiator_task_tag = wanted.initiator_task_tag;
  part.target_transfer_tag = wanted.target_transfer_tag;
  for (std::size_t done = 0; done < wanted.desired_length; done += part.data_segment_length) {
    const std::size_t bytes = std::min<std::size_t>(segment, wanted.desired_length - done);
    const ByteSpan piece = data.subspan(wanted.buffer_offset + done, bytes);
    part.buffer_offset = static_cast<std::uint32_t>(wanted.buffer_offset + done);
    part.data_segment_length = static_cast<std::uint32_t>(bytes);
    part.final = done + bytes == wanted.desired_length;
    connection.send(part, {piece.begin(), piece.end()});
    ++part.data_sn;
  }
}

[[nodiscard]] std::vector<std::byte> read_back(Connection& connection, std::uint16_t blocks) {
  connection.send(connection.command(false, 8, blocks));
  std::vector<std::byte> all;
  while (!connection.is_quiet()) {
    std::vector<std::byte> data;
    static_cast<void>(connection.next<DataIn>(&data));
    all.insert(all.end(), data.begin(), data.end());
  }
  return all;
}

struct Keys {
  bool immediate_data{};
  bool initial_r2t{};
  std::uint32_t first_burst{};
  std::uint32_t max_burst{};
  std::uint32_t outstanding{};
};

[[nodiscard]] TextPairs text_of(const Keys& keys, std::vector<std::string>& values) {
  values = {keys.immediate_data ? "Yes" : "No", keys.initial_r2t ? "Yes" : "No",
            fmt::format("{}", keys.first_burst), fmt::format("{}", keys.max_burst),
            fmt::format("{}", keys.outstanding)};
  return {
      {"ImmediateData",     values[0]},
      {"InitialR2T",        values[1]},
      {"FirstBurstLength",  values[2]},
      {"MaxBurstLength",    values[3]},
      {"MaxOutstandingR2T", values[4]}
  };
}

/// Writes `blocks` with as much immediate and unsolicited data as the keys allow; how many R2Ts
/// came.
[[nodiscard]] std::size_t write_by(const Keys& keys, std::uint16_t blocks) {
  Fixture fixture;
  Connection connection{fixture};
  std::vector<std::string> values;
  EXPECT_EQ(connection.login(text_of(keys, values)).status, wire::iscsi::LoginStatus::Success);
  connection.clear_attention();
  const std::vector<std::byte> data = pattern(blocks * 512U);
  const std::size_t unsolicited = std::min<std::size_t>(data.size(), keys.first_burst);
  const std::size_t immediate = keys.immediate_data ? unsolicited / 2 / 4 * 4 : 0;
  ScsiCommand command = connection.command(true, 8, blocks);
  command.final = keys.initial_r2t || immediate == unsolicited;
  connection.send(command, {data.begin(), data.begin() + static_cast<std::ptrdiff_t>(immediate)});
  if (!command.final) {
    EXPECT_TRUE(connection.is_quiet()) << "no R2T before unsolicited data has ended";
    DataOut part;
    part.initiator_task_tag = command.initiator_task_tag;
    part.final = true;
    part.buffer_offset = static_cast<std::uint32_t>(immediate);
    connection.send(part, {data.begin() + static_cast<std::ptrdiff_t>(immediate),
                           data.begin() + static_cast<std::ptrdiff_t>(unsolicited)});
  }
  std::size_t r2ts = 0;
  std::size_t solicited = 0;
  while (!connection.is_quiet() &&
         connection.mover.sent.front().basic_header().opcode == wire::iscsi::Opcode::R2t) {
    std::vector<R2t> outstanding;
    while (!connection.is_quiet()) {
      outstanding.push_back(connection.next<R2t>());
      EXPECT_EQ(outstanding.back().r2t_sn, r2ts);
      EXPECT_LE(outstanding.back().desired_length, keys.max_burst);
      ++r2ts;
    }
    EXPECT_LE(outstanding.size(), keys.outstanding);
    for (const R2t& wanted : outstanding) {
      solicited += wanted.desired_length;
      answer_r2t(connection, wanted, data, 1000);
    }
  }
  EXPECT_EQ(solicited, data.size() - (command.final ? immediate : unsolicited));
  const auto response = connection.next<ScsiResponse>();
  EXPECT_EQ(response.status, 0);
  EXPECT_EQ(response.exp_data_sn, r2ts);
  EXPECT_FALSE(response.overflow || response.underflow);
  EXPECT_EQ(read_back(connection, blocks), data);
  return r2ts;
}

TEST(TargetCommands, TakeDataByEveryCombinationOfKeys) {
  for (const bool immediate : {false, true}) {
    for (const bool initial_r2t : {false, true}) {
      for (const std::uint32_t first : {512U, 2048U, 8192U}) {
        for (const std::uint32_t burst : {1024U, 8192U}) {
          for (const std::uint32_t outstanding : {1U, 4U}) {
            for (const std::uint16_t blocks : {std::uint16_t{1}, std::uint16_t{13}}) {
              SCOPED_TRACE(fmt::format("{} {} {} {} {} {}", immediate, initial_r2t, first, burst,
                                       outstanding, blocks));
              static_cast<void>(write_by(
                  {immediate, initial_r2t, std::min(first, burst), burst, outstanding}, blocks));
            }
          }
        }
      }
    }
  }
}

TEST(TargetCommands, NeedAsManyR2tsAsBursts) {
  EXPECT_EQ(write_by({false, true, 512, 1024, 1}, 8), 4U);
  EXPECT_EQ(write_by({false, false, 1024, 1024, 1}, 8), 3U);
  EXPECT_EQ(write_by({true, true, 2048, 4096, 1}, 8), 1U) << "1024 octets came with the command";
  EXPECT_EQ(write_by({true, false, 4096, 4096, 1}, 8), 0U);
}

TEST(TargetCommands, ReadWithStatusInTheLastDataIn) {  // RFC 7143 §11.7.3
  Fixture fixture;
  Connection connection{fixture};
  connection.login(TextPairs{
      {"MaxRecvDataSegmentLength", "1024"},
      {"MaxBurstLength",           "2048"}
  });
  connection.clear_attention();
  connection.send(connection.command(false, 0, 7));
  for (std::uint32_t i = 0; i < 4; ++i) {
    std::vector<std::byte> data;
    const auto part = connection.next<DataIn>(&data);
    EXPECT_EQ(part.data_sn, i);
    EXPECT_EQ(part.buffer_offset, i * 1024);
    EXPECT_EQ(data.size(), i == 3 ? 512U : 1024U);
    EXPECT_EQ(part.final, i % 2 == 1) << "a sequence has MaxBurstLength";
    EXPECT_EQ(part.has_status, i == 3);
    EXPECT_EQ(part.target_transfer_tag, kNoTag);
  }
  EXPECT_TRUE(connection.is_quiet());
}

/// Writes `data` from block 0 on.
void write_blocks(Connection& connection, const std::vector<std::byte>& data) {
  connection.send(connection.command(true, 0, static_cast<std::uint16_t>(data.size() / 512)));
  while (!connection.is_quiet() &&
         connection.mover.sent.front().basic_header().opcode == wire::iscsi::Opcode::R2t) {
    answer_r2t(connection, connection.next<R2t>(), data, 8'192);
  }
  EXPECT_EQ(connection.next<ScsiResponse>().status, 0);
}

/// What lies together in a disk in memory is sent from there, and stays as it was read.
TEST(TargetCommands, SendWhatADiskInMemoryLends) {
  Fixture fixture;
  Connection connection{fixture};
  ASSERT_EQ(connection.login().status, wire::iscsi::LoginStatus::Success);
  connection.clear_attention();
  const std::vector<std::byte> before = pattern(200 * 512);
  write_blocks(connection, before);
  std::vector<OutgoingPdu> held;
  for (int i = 0; i < 2; ++i) {
    connection.send(connection.command(false, 1, 8));
    ASSERT_FALSE(connection.is_quiet());
    held.push_back(std::move(connection.mover.sent.front()));
    connection.mover.sent.pop_front();
    ASSERT_TRUE(connection.is_quiet());
  }
  EXPECT_EQ(held[0].data().data(), held[1].data().data()) << "neither is a copy";
  write_blocks(connection, std::vector<std::byte>(200 * 512));
  EXPECT_TRUE(std::ranges::equal(held[0].data(), ByteSpan{before}.subspan(512, 8 * 512)));
  // Across what a disk in memory has in one piece.
  write_blocks(connection, before);
  EXPECT_TRUE(
      std::ranges::equal(read_back(connection, 190), ByteSpan{before}.subspan(8 * 512, 190 * 512)));
}

TEST(TargetCommands, TellResiduals) {  // RFC 7143 §11.4.5
  Fixture fixture;
  Connection connection{fixture};
  connection.login();
  connection.clear_attention();
  ScsiCommand more = connection.command(false, 0, 1);
  more.expected_data_transfer_length = 1000;
  connection.send(more);
  const auto under = connection.next<DataIn>();
  EXPECT_TRUE(under.underflow && !under.overflow);
  EXPECT_EQ(under.residual, 488U);
  ScsiCommand less = connection.command(false, 0, 2);
  less.expected_data_transfer_length = 512;
  connection.send(less);
  const auto over = connection.next<DataIn>();
  EXPECT_TRUE(over.overflow && !over.underflow);
  EXPECT_EQ(over.residual, 512U);
}

TEST(TargetCommands, StoreTheWholeBlocksOfShortData) {  // RFC 7143 §11.4.5.1
  for (const std::size_t bytes : {0U, 200U, 512U, 1000U}) {
    Fixture fixture;
    Connection connection{fixture};
    connection.login();
    connection.clear_attention();
    ScsiCommand command = connection.command(true, 8, 3);
    command.expected_data_transfer_length = static_cast<std::uint32_t>(bytes);
    const std::vector<std::byte> data = pattern(bytes);
    connection.send(command, data);
    const auto response = connection.next<ScsiResponse>();
    EXPECT_EQ(response.status, 0);
    EXPECT_TRUE(response.overflow && !response.underflow);
    EXPECT_EQ(response.residual, 3 * 512 - bytes);
    std::vector<std::byte> stored(1536);
    std::copy_n(data.begin(), bytes / 512 * 512, stored.begin());
    EXPECT_EQ(read_back(connection, 3), stored);
  }
}

TEST(TargetCommands, CarrySenseData) {
  Fixture fixture;
  Connection connection{fixture};
  connection.login();
  connection.clear_attention();
  connection.send(connection.command(false, 0xFFFF'FF00, 1));
  std::vector<std::byte> data;
  const auto response = connection.next<ScsiResponse>(&data);
  EXPECT_EQ(response.status, 2);
  ASSERT_GT(data.size(), 2U);
  EXPECT_EQ(data.size(), 2 + std::to_integer<std::size_t>(data[1])) << "SenseLength";
  EXPECT_EQ(data[2 + 2] & std::byte{0xF}, std::byte{5}) << "ILLEGAL REQUEST";
}

TEST(TargetCommands, ComeInOrderOfTheirCmdSn) {  // RFC 7143 §4.2.2.1
  Fixture fixture;
  Connection connection{fixture};
  connection.login();
  connection.clear_attention();
  const ScsiCommand first = connection.command(false, 0, 1);
  const ScsiCommand second = connection.command(false, 0, 1);
  connection.send(second);
  EXPECT_TRUE(connection.is_quiet());
  connection.send(first);
  EXPECT_EQ(connection.next<DataIn>().initiator_task_tag, first.initiator_task_tag);
  const auto last = connection.next<DataIn>();
  EXPECT_EQ(last.initiator_task_tag, second.initiator_task_tag);
  ScsiCommand again = first;
  again.initiator_task_tag = 99;
  connection.send(again);
  ScsiCommand far = connection.command(false, 0, 1);
  far.cmd_sn = last.max_cmd_sn + 1;
  connection.send(far);
  EXPECT_TRUE(connection.is_quiet()) << "outside of the window: silently ignored";
  connection.cmd_sn--;
  connection.send(connection.command(false, 0, 1));
  const auto next = connection.next<DataIn>();
  EXPECT_EQ(next.exp_cmd_sn, last.exp_cmd_sn + 1);
  EXPECT_EQ(next.max_cmd_sn, last.max_cmd_sn + 1);
}

TEST(TargetCommands, MayBeImmediate) {  // RFC 7143 §4.2.2.1
  Fixture fixture;
  Connection connection{fixture};
  connection.login();
  connection.clear_attention();
  ScsiCommand urgent = connection.command(false, 0, 1);
  urgent.immediate = true;
  connection.cmd_sn--;
  connection.send(urgent);
  EXPECT_EQ(connection.next<DataIn>().exp_cmd_sn, urgent.cmd_sn) << "it takes no CmdSN";
}

TEST(TargetCommands, FailWithDataThatIsNotAgreed) {  // RFC 7143 §11.4.7.2
  const auto sense_of = [](const TextPairs& keys, bool final, std::size_t immediate) {
    Fixture fixture;
    Connection connection{fixture};
    connection.login(keys);
    connection.clear_attention();
    ScsiCommand command = connection.command(true, 0, 4);
    command.final = final;
    connection.send(command, std::vector<std::byte>(immediate));
    std::vector<std::byte> data;
    EXPECT_EQ(connection.next<ScsiResponse>(&data).status, 2);
    EXPECT_EQ(read_back(connection, 4), std::vector<std::byte>(2048));
    return data.size() < 18 ? std::string{} : to_binary_value(ByteSpan{data}.subspan(2 + 12, 2));
  };
  EXPECT_EQ(sense_of(
                {
                    {"ImmediateData", "No"}
  },
                true, 512),
            "0x0c0c");
  EXPECT_EQ(sense_of(
                {
                    {"InitialR2T", "Yes"}
  },
                false, 0),
            "0x0c0c");
  EXPECT_EQ(sense_of(
                {
                    {"FirstBurstLength", "512"}
  },
                true, 516),
            "0x0c0c");
}

TEST(TargetCommands, FailWhenDataOutBreaksItsSequence) {  // RFC 7143 §7.9, level 0
  Fixture fixture;
  Connection connection{fixture};
  connection.login();
  connection.clear_attention();
  const ScsiCommand command = connection.command(true, 0, 4);
  connection.send(command);
  const auto wanted = connection.next<R2t>();
  DataOut part;
  part.initiator_task_tag = command.initiator_task_tag;
  part.target_transfer_tag = wanted.target_transfer_tag;
  part.data_sn = 1;
  connection.send(part, std::vector<std::byte>(512));
  std::vector<std::byte> data;
  EXPECT_EQ(connection.next<ScsiResponse>(&data).status, 2);
  EXPECT_EQ(to_binary_value(ByteSpan{data}.subspan(14, 2)), "0x0c0d");
  connection.send(part, std::vector<std::byte>(512));
  EXPECT_TRUE(connection.is_quiet()) << "the rest is dropped";
}

TEST(TargetCommands, RejectWhatMakesNoSense) {
  Fixture fixture;
  Connection connection{fixture};
  connection.login();
  connection.clear_attention();
  const ScsiCommand read = connection.command(false, 0, 1);
  connection.send(read, std::vector<std::byte>(512));
  std::vector<std::byte> refused;
  EXPECT_EQ(connection.next<Reject>(&refused).reason, wire::iscsi::RejectReason::InvalidPduField);
  EXPECT_EQ(refused.size(), wire::iscsi::kHeaderBytes);
  const ScsiCommand write = [&] {
    connection.cmd_sn--;
    return connection.command(true, 0, 1);
  }();
  connection.send(write);
  static_cast<void>(connection.next<R2t>());
  ScsiCommand twin = connection.command(false, 0, 1);
  twin.initiator_task_tag = write.initiator_task_tag;
  connection.send(twin);
  EXPECT_EQ(connection.next<Reject>().reason, wire::iscsi::RejectReason::TaskInProgress);
}

TEST(TargetCommands, TakeTheirDataFromTheDatamoverToo) {  // RFC 5047 §8.2.3
  Fixture fixture;
  Connection connection{fixture};
  connection.login();
  connection.clear_attention();
  connection.send(connection.command(true, 8, 2));
  const auto wanted = connection.next<R2t>();
  const std::vector<std::byte> data = pattern(1024);
  ASSERT_EQ(connection.mover.fetch_into.size(), 1024U);
  std::ranges::copy(data, connection.mover.fetch_into.begin());
  connection.fetched(wanted.target_transfer_tag);
  EXPECT_EQ(connection.next<ScsiResponse>().status, 0);
  EXPECT_EQ(read_back(connection, 2), data);
}

TEST(TargetCommands, TakeLongCdbsAndRefuseBrokenAdditionalHeaders) {  // RFC 7143 §11.2.2
  Fixture fixture;
  Connection connection{fixture};
  connection.login();
  connection.clear_attention();
  OutgoingPdu broken{connection.command(false, 0, 1)};
  broken.set_additional_headers(pattern(8));
  connection.send_pdu(broken);
  EXPECT_EQ(connection.next<Reject>().reason, wire::iscsi::RejectReason::InvalidPduField);
  connection.cmd_sn--;
  OutgoingPdu extended{connection.command(false, 0, 1)};
  std::vector<std::byte> header(8);
  header[1] = std::byte{5};  // a reserved octet, and 4 of the CDB
  header[2] = std::byte{1};
  extended.set_additional_headers(header);
  connection.send_pdu(extended);
  EXPECT_EQ(connection.next<DataIn>().status, 0) << "READ (10) ignores the octets behind it";
}

TEST(TargetCommands, OfALostConnectionAreForgotten) {
  Fixture fixture;
  {
    Connection connection{fixture};
    connection.login();
    connection.clear_attention();
    connection.send(connection.command(true, 0, 4));
    EXPECT_EQ(fixture.server.sessions(), 1U);
    EXPECT_EQ(fixture.scsi.nexuses(), 1U);
  }
  EXPECT_EQ(fixture.server.sessions(), 0U);
  EXPECT_EQ(fixture.server.connections(), 0U);
  EXPECT_EQ(fixture.scsi.nexuses(), 0U);
}

}  // namespace
}  // namespace weft::iscsi
