#include "iscsi/initiator_session.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "iscsi/testing/scripted_target.h"
#include "wire/iscsi/logout.h"
#include "wire/iscsi/nop.h"
#include "wire/iscsi/reject.h"
#include "wire/iscsi/text.h"

namespace weft::iscsi {
namespace {

using testing::pattern;
using testing::scripted_options;
using testing::ScriptedTarget;
using testing::Submitted;
using wire::iscsi::AsyncEvent;
using wire::iscsi::AsyncMessage;
using wire::iscsi::DataIn;
using wire::iscsi::DataOut;
using wire::iscsi::kNoTag;
using wire::iscsi::LogoutRequest;
using wire::iscsi::LogoutResponse;
using wire::iscsi::NopIn;
using wire::iscsi::NopOut;
using wire::iscsi::R2t;
using wire::iscsi::ScsiCommand;
using wire::iscsi::ScsiResponse;
using wire::iscsi::TaskManagementFunction;
using wire::iscsi::TaskManagementOutcome;
using wire::iscsi::TaskManagementRequest;
using wire::iscsi::TaskManagementResponse;
using Kind = InitiatorOutcome::Kind;

ScsiResponse good(std::uint32_t tag) {
  ScsiResponse response;
  response.initiator_task_tag = tag;
  return response;
}

TEST(InitiatorSession, LogsInAndReads) {
  ScriptedTarget target;
  target.session.start(target.now);
  EXPECT_EQ(target.asked, std::vector<std::string>{"127.0.0.1:3260"});
  target.log_in();
  EXPECT_EQ(target.session.state(), SessionState::Live);
  const Submitted& read = target.submit(false, 2);
  const auto command = target.next<ScsiCommand>();
  EXPECT_TRUE(command.read && !command.write && command.final);
  EXPECT_EQ(command.cmd_sn, target.exp_cmd_sn);
  EXPECT_EQ(command.exp_stat_sn, target.stat_sn);
  EXPECT_EQ(command.expected_data_transfer_length, 1024U);
  DataIn data;
  data.initiator_task_tag = command.initiator_task_tag;
  target.number(data);
  target.send(data, pattern(700, 9));
  EXPECT_FALSE(read.outcome);
  data.data_sn = 1;
  data.buffer_offset = 700;
  data.final = data.has_status = true;
  target.answer(data, pattern(324, 709));
  ASSERT_TRUE(read.outcome && read.outcome->is_good());
  EXPECT_EQ(read.outcome->data_in_bytes, 1024U);
  EXPECT_TRUE(std::ranges::equal(read.command.data_in.octets(), pattern(1024, 9)));
}

// What goes with the command and behind it, by the keys (RFC 7143 §13.10, §13.11, §13.14).
TEST(InitiatorSession, SendsImmediateAndUnsolicitedDataAsAgreed) {
  struct Row {
    const char* initial_r2t;
    const char* immediate;
    const char* first_burst;
    std::size_t with_command;
    std::size_t behind;
  };
  constexpr Row kRows[] = {
      {"Yes", "No",  "1024", 0,    0   },
      {"Yes", "Yes", "1024", 1024, 0   },
      {"Yes", "Yes", "4096", 1536, 0   },
      {"No",  "No",  "1024", 0,    1024},
      {"No",  "No",  "4096", 0,    3072},
      {"No",  "Yes", "1024", 1024, 0   },
      {"No",  "Yes", "2560", 1536, 1024},
  };
  for (const Row& row : kRows) {
    InitiatorOptions options = scripted_options();
    options.preferences.values.initial_r2t = false;
    ScriptedTarget target{options};
    target.session.start(target.now);
    target.log_in({
        {"InitialR2T",               row.initial_r2t},
        {"ImmediateData",            row.immediate  },
        {"FirstBurstLength",         row.first_burst},
        {"MaxRecvDataSegmentLength", "1536"         }
    });
    Submitted& write = target.submit(true, 6);
    const auto whole = pattern(3072);
    std::vector<std::byte> sent;
    const auto command = target.next<ScsiCommand>(&sent);
    EXPECT_EQ(sent.size(), row.with_command);
    EXPECT_EQ(command.final, row.behind == 0);
    std::size_t behind = 0;
    for (std::uint32_t data_sn = 0; !target.is_quiet(); ++data_sn) {
      std::vector<std::byte> data;
      const auto header = target.next<DataOut>(&data);
      EXPECT_EQ(header.data_sn, data_sn);
      EXPECT_EQ(header.target_transfer_tag, kNoTag);
      EXPECT_EQ(header.buffer_offset, sent.size());
      EXPECT_LE(data.size(), 1536U);
      behind += data.size();
      sent.insert(sent.end(), data.begin(), data.end());
      EXPECT_EQ(header.final, behind == row.behind);
    }
    EXPECT_EQ(behind, row.behind);
    // The rest, when it is asked for.
    if (sent.size() < whole.size()) {
      R2t r2t;
      r2t.initiator_task_tag = command.initiator_task_tag;
      r2t.target_transfer_tag = 0x77;
      r2t.buffer_offset = static_cast<std::uint32_t>(sent.size());
      r2t.desired_length = static_cast<std::uint32_t>(whole.size() - sent.size());
      target.number(r2t);
      target.send(r2t);
      while (!target.is_quiet()) {
        std::vector<std::byte> data;
        EXPECT_EQ(target.next<DataOut>(&data).target_transfer_tag, 0x77U);
        sent.insert(sent.end(), data.begin(), data.end());
      }
    }
    EXPECT_EQ(sent, whole);
    target.answer(good(command.initiator_task_tag));
    EXPECT_TRUE(write.outcome && write.outcome->is_good());
  }
}

TEST(InitiatorSession, KeepsToTheCommandWindow) {  // RFC 7143 §4.2.2.1
  ScriptedTarget target;
  target.window = 2;
  target.session.start(target.now);
  target.log_in();
  for (int i = 0; i < 3; ++i) {
    target.submit(true, 0);
  }
  const auto first = target.next<ScsiCommand>();
  static_cast<void>(target.next<ScsiCommand>());
  EXPECT_TRUE(target.is_quiet());
  EXPECT_EQ(target.session.waiting(), 1U);
  ++target.exp_cmd_sn;
  target.answer(good(first.initiator_task_tag));
  EXPECT_EQ(target.next<ScsiCommand>().cmd_sn, first.cmd_sn + 2);
}

TEST(InitiatorSession, SendsALongCdbWithAnAdditionalHeader) {  // RFC 7143 §11.2.2.3
  ScriptedTarget target;
  target.session.start(target.now);
  target.log_in();
  target.submit(false, 1, 32);
  static_cast<void>(target.next<ScsiCommand>());
  ASSERT_EQ(target.last.additional_headers().size(), 20U);
  EXPECT_EQ(target.last.additional_headers()[1], std::byte{17});
  EXPECT_EQ(target.last.additional_headers()[2], std::byte{1});
}

// What a target may not send ends the connection, and the command is interrupted.
TEST(InitiatorSession, DropsATargetThatBreaksTheRules) {
  const auto with_read = [](auto&& misbehave) {
    ScriptedTarget target;
    target.session.start(target.now);
    target.log_in();
    const Submitted& read = target.submit(false, 2);
    const auto tag = target.next<ScsiCommand>().initiator_task_tag;
    misbehave(target, tag);
    EXPECT_TRUE(target.mover.ended);
    target.pass({});
    EXPECT_TRUE(read.ended_as(Kind::Interrupted));
    EXPECT_EQ(target.session.state(), SessionState::Blocked);
  };
  with_read([](ScriptedTarget& target, std::uint32_t tag) {  // more than was asked for
    DataIn data;
    data.initiator_task_tag = tag;
    target.send(data, pattern(1025));
  });
  with_read([](ScriptedTarget& target, std::uint32_t tag) {  // a Data-In PDU is missing
    DataIn data;
    data.initiator_task_tag = tag;
    data.data_sn = 1;
    target.send(data, pattern(512));
  });
  with_read([](ScriptedTarget& target, std::uint32_t tag) {  // GOOD, and half of the data
    DataIn data;
    data.initiator_task_tag = tag;
    data.has_status = true;
    target.answer(data, pattern(512));
  });
  with_read([](ScriptedTarget& target, std::uint32_t tag) {  // a status is missing
    ++target.stat_sn;
    target.answer(good(tag));
  });
  with_read([](ScriptedTarget& target, std::uint32_t tag) {  // a request for data of a read
    R2t r2t;
    r2t.initiator_task_tag = tag;
    r2t.target_transfer_tag = 1;
    r2t.desired_length = 512;
    target.send(r2t);
  });
  with_read([](ScriptedTarget& target, std::uint32_t tag) {  // its digest is wrong
    DataIn data;
    data.initiator_task_tag = tag;
    target.send(data, pattern(512), true);
  });
  with_read([](ScriptedTarget& target, std::uint32_t /*tag*/) {
    wire::iscsi::Reject reject;
    reject.reason = wire::iscsi::RejectReason::ProtocolError;
    target.answer(reject);
  });
  with_read([](ScriptedTarget& target, std::uint32_t tag) {  // it is no target
    ScsiCommand command;
    command.initiator_task_tag = tag;
    target.send(command);
  });
}

TEST(InitiatorSession, AnUnderflowIsNoMissingData) {
  ScriptedTarget target;
  target.session.start(target.now);
  target.log_in();
  const Submitted& read = target.submit(false, 2);
  DataIn data;
  data.initiator_task_tag = target.next<ScsiCommand>().initiator_task_tag;
  data.has_status = data.underflow = true;
  data.residual = 924;
  target.answer(data, pattern(100));
  ASSERT_TRUE(read.outcome && read.outcome->is_good());
  EXPECT_EQ(read.outcome->data_in_bytes, 100U);
  EXPECT_EQ(read.outcome->residual, 924);
}

TEST(InitiatorSession, AbortsAndResets) {  // RFC 7143 §11.5, §11.6
  ScriptedTarget target;
  target.session.start(target.now);
  target.log_in();
  Submitted& first = target.submit(false, 1);
  const Submitted& second = target.submit(false, 1);
  const auto command = target.next<ScsiCommand>();
  static_cast<void>(target.next<ScsiCommand>());
  target.session.abort(first.command, target.now);
  auto request = target.next<TaskManagementRequest>();
  EXPECT_TRUE(request.immediate);
  EXPECT_EQ(request.function, TaskManagementFunction::AbortTask);
  EXPECT_EQ(request.referenced_task_tag, command.initiator_task_tag);
  EXPECT_EQ(request.ref_cmd_sn, command.cmd_sn);
  EXPECT_FALSE(first.outcome);
  TaskManagementResponse response;
  response.initiator_task_tag = request.initiator_task_tag;
  target.answer(response);
  EXPECT_TRUE(first.ended_as(Kind::Aborted));
  EXPECT_FALSE(second.outcome);

  std::optional<TaskManagementOutcome> said;
  target.session.manage(
      TaskManagementFunction::LogicalUnitReset, 0,
      [&](std::optional<TaskManagementOutcome> outcome, Instant) { said = outcome; }, target.now);
  const Submitted& after = target.submit(false, 1);
  request = target.next<TaskManagementRequest>();
  EXPECT_EQ(request.referenced_task_tag, kNoTag);
  response.initiator_task_tag = request.initiator_task_tag;
  target.answer(response);
  EXPECT_EQ(said, TaskManagementOutcome::Complete);
  EXPECT_TRUE(second.ended_as(Kind::Aborted));
  EXPECT_FALSE(after.outcome);
}

TEST(InitiatorSession, ACommandThatTakesTooLongIsAbortedAndThenTheConnection) {
  InitiatorOptions options = scripted_options();
  options.ping_interval = Duration::seconds(1000);
  ScriptedTarget target{options};
  target.session.start(target.now);
  target.log_in();
  const Submitted& read = target.submit(false, 1);
  static_cast<void>(target.next<ScsiCommand>());
  target.pass(Duration::seconds(31));
  EXPECT_EQ(target.next<TaskManagementRequest>().function, TaskManagementFunction::AbortTask);
  EXPECT_FALSE(read.outcome);
  target.pass(Duration::seconds(11));
  EXPECT_TRUE(read.ended_as(Kind::Aborted));
  EXPECT_EQ(target.session.state(), SessionState::Blocked);
}

TEST(InitiatorSession, AnswersPingsAndSendsThem) {  // RFC 7143 §11.18, §11.19
  ScriptedTarget target;
  target.session.start(target.now);
  target.log_in();
  NopIn ping;
  ping.target_transfer_tag = 5;
  ping.stat_sn = target.stat_sn;
  target.number(ping);
  target.send(ping, pattern(10));
  std::vector<std::byte> data;
  auto nop = target.next<NopOut>(&data);
  EXPECT_EQ(nop.target_transfer_tag, 5U);
  EXPECT_EQ(nop.initiator_task_tag, kNoTag);
  EXPECT_EQ(data, pattern(10));
  target.pass(Duration::seconds(11));
  nop = target.next<NopOut>();
  EXPECT_TRUE(nop.immediate);
  NopIn answer;
  answer.initiator_task_tag = nop.initiator_task_tag;
  target.answer(answer);
  target.pass(Duration::seconds(11));
  static_cast<void>(target.next<NopOut>());
  EXPECT_EQ(target.session.state(), SessionState::Live);
  target.pass(Duration::seconds(11));  // no answer to the second
  EXPECT_EQ(target.session.state(), SessionState::Blocked);
}

TEST(InitiatorSession, WaitsThenFailsFastThenGivesUp) {
  ScriptedTarget target;
  target.session.start(target.now);
  target.log_in();
  target.lose();
  const Submitted& waits = target.submit(false, 1);
  EXPECT_FALSE(waits.outcome);
  target.pass(Duration::seconds(2));
  ASSERT_EQ(target.asked.size(), 2U);
  target.session.handle_connect_failed(0, "refused", target.now);
  target.pass(Duration::seconds(29));
  EXPECT_TRUE(waits.ended_as(Kind::NotSent));
  EXPECT_EQ(target.session.state(), SessionState::FailFast);
  EXPECT_TRUE(target.submit(false, 1).ended_as(Kind::NotSent));
  target.log_in();  // the login that handle_timeout() has begun
  EXPECT_EQ(target.session.state(), SessionState::Live);
  target.lose();
  for (int i = 0; i < 400 && target.session.state() != SessionState::Lost; ++i) {
    target.pass(Duration::seconds(2));
  }
  EXPECT_EQ(target.session.state(), SessionState::Lost);
  EXPECT_GT(target.cancelled, 0);
}

TEST(InitiatorSession, WhatWasUnderWayIsInterruptedAndWhatWaitedIsSentAfterTheNextLogin) {
  ScriptedTarget target;
  target.window = 1;
  target.session.start(target.now);
  target.log_in();
  const Submitted& sent = target.submit(false, 1);
  const Submitted& waits = target.submit(false, 1);
  static_cast<void>(target.next<ScsiCommand>());
  target.lose();
  EXPECT_TRUE(sent.ended_as(Kind::Interrupted));
  EXPECT_FALSE(waits.outcome);
  target.pass(Duration::seconds(2));
  target.log_in();
  const auto command = target.next<ScsiCommand>();
  EXPECT_EQ(command.cmd_sn, target.exp_cmd_sn);
  ScsiResponse response = good(command.initiator_task_tag);
  response.status = 2;
  target.answer(response, {std::byte{0}, std::byte{2}, std::byte{0x70}, std::byte{1}});
  ASSERT_TRUE(waits.outcome);
  EXPECT_EQ(waits.outcome->status, 2);
  EXPECT_EQ(waits.outcome->sense, (std::vector{std::byte{0x70}, std::byte{1}}));
}

TEST(InitiatorSession, LogsOutWhenStopped) {  // RFC 7143 §11.14
  ScriptedTarget target;
  target.session.start(target.now);
  target.log_in();
  target.session.stop(target.now);
  const auto request = target.next<LogoutRequest>();
  LogoutResponse response;
  response.initiator_task_tag = request.initiator_task_tag;
  target.answer(response);
  EXPECT_TRUE(target.mover.ended);
  target.lose();
  EXPECT_EQ(target.session.state(), SessionState::Idle);
  EXPECT_TRUE(target.submit(false, 1).ended_as(Kind::NotSent));
}

TEST(InitiatorSession, FollowsAsynchronousMessages) {  // RFC 7143 §11.9
  ScriptedTarget target;
  target.session.start(target.now);
  target.log_in();
  AsyncMessage message;
  message.event = AsyncEvent::Scsi;
  target.answer(message, {std::byte{0}, std::byte{1}, std::byte{0x70}});
  ASSERT_EQ(target.events.size(), 1U);
  EXPECT_EQ(target.events[0], std::vector{std::byte{0x70}});
  message.event = AsyncEvent::LogoutRequested;
  message.parameter3 = 5;
  target.submit(true, 0);
  const auto command = target.next<ScsiCommand>();
  target.answer(message);
  const Submitted& waits = target.submit(true, 0);
  EXPECT_TRUE(target.is_quiet());  // what is under way ends first, nothing new is sent
  target.answer(good(command.initiator_task_tag));
  static_cast<void>(target.next<LogoutRequest>());
  target.lose();
  EXPECT_FALSE(waits.outcome);
  target.pass(Duration::seconds(2));
  target.log_in();
  static_cast<void>(target.next<ScsiCommand>());
  message.event = AsyncEvent::SessionDropped;
  message.parameter2 = 20;
  target.answer(message);
  target.pass({});
  const std::size_t asked = target.asked.size();
  target.pass(Duration::seconds(19));
  EXPECT_EQ(target.asked.size(), asked);
  target.pass(Duration::seconds(1));
  EXPECT_EQ(target.asked.size(), asked + 1);
}

TEST(InitiatorSession, ReadsATextOfSeveralPdus) {  // RFC 7143 Appendix C
  InitiatorOptions options = scripted_options();
  ScriptedTarget target{options};
  target.session.start(target.now);
  target.log_in();
  std::string found;
  target.session.send_text(
      {"SendTargets", "All"},
      [&](const TextPairs* pairs, Instant) {
        found = pairs == nullptr ? "nothing" : find_value(*pairs, "TargetName").value_or("none");
      },
      target.now);
  wire::iscsi::TextResponse response;
  response.initiator_task_tag = target.next<wire::iscsi::TextRequest>().initiator_task_tag;
  response.continues = true;
  response.target_transfer_tag = 3;
  target.answer(response, to_octets("TargetName=iqn.2026-"));
  EXPECT_EQ(target.next<wire::iscsi::TextRequest>().target_transfer_tag, 3U);
  response.continues = false;
  response.final = true;
  target.answer(response, to_octets(std::string_view{"01.a:b\0", 7}));
  EXPECT_EQ(found, "iqn.2026-01.a:b");
}

}  // namespace
}  // namespace weft::iscsi
