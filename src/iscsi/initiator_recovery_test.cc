// Several connections and error recovery levels 1 and 2 of an initiator's session (RFC 7143 §7).

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "iscsi/initiator_connection.h"
#include "iscsi/testing/scripted_target.h"
#include "wire/iscsi/logout.h"
#include "wire/iscsi/nop.h"
#include "wire/iscsi/reject.h"
#include "wire/iscsi/snack.h"

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
using wire::iscsi::LoginRequest;
using wire::iscsi::LogoutOutcome;
using wire::iscsi::LogoutReason;
using wire::iscsi::LogoutRequest;
using wire::iscsi::LogoutResponse;
using wire::iscsi::NopIn;
using wire::iscsi::NopOut;
using wire::iscsi::R2t;
using wire::iscsi::Reject;
using wire::iscsi::RejectReason;
using wire::iscsi::ScsiCommand;
using wire::iscsi::ScsiResponse;
using wire::iscsi::SnackRequest;
using wire::iscsi::SnackType;
using wire::iscsi::TaskManagementFunction;
using wire::iscsi::TaskManagementOutcome;
using wire::iscsi::TaskManagementRequest;
using wire::iscsi::TaskManagementResponse;
using Kind = InitiatorOutcome::Kind;

/// A session of `level` with as many connections, all logged in.
class Recovering final {
 public:
  explicit Recovering(std::uint32_t level, std::uint16_t connections = 1)
      : target(options(level, connections)) {
    target.session.start(target.now);
    target.log_in({
        {"ErrorRecoveryLevel", std::to_string(level)      },
        {"MaxConnections",     std::to_string(connections)},
        {"DefaultTime2Retain", "20"                       }
    });
    for (std::uint16_t cid = 1; cid < connections; ++cid) {
      target.join(cid);
    }
    target.cid = 0;
  }
  static InitiatorOptions options(std::uint32_t level, std::uint16_t connections) {
    InitiatorOptions made = scripted_options();
    made.preferences.values.error_recovery_level = level;
    made.preferences.values.max_connections = connections;
    return made;
  }
  /// A read of two blocks, whose command is on connection target.cid.
  Submitted& read() {
    Submitted& submitted = target.submit(false, 2);
    command = target.next<ScsiCommand>();
    return submitted;
  }
  /// Half `which` of what it reads.
  void send_half(std::uint32_t which, bool damaged = false, bool acknowledge = false) {
    DataIn data;
    data.initiator_task_tag = command.initiator_task_tag;
    data.data_sn = which;
    data.buffer_offset = which * 512;
    data.acknowledge = acknowledge;
    data.target_transfer_tag = acknowledge ? 0x99 : kNoTag;
    target.number(data);
    target.send(data, pattern(512, which * 512UL), damaged);
  }
  [[nodiscard]] ScsiResponse response(std::uint32_t data_count) const {
    ScsiResponse made;
    made.initiator_task_tag = command.initiator_task_tag;
    made.exp_data_sn = data_count;
    return made;
  }
  /// The target knows of all commands so far.
  void acknowledge_commands() { target.exp_cmd_sn = command.cmd_sn + 1; }
  void expect_snack(SnackType type, std::uint32_t begin, std::uint32_t count) {
    const auto snack = target.next<SnackRequest>();
    EXPECT_EQ(snack.type, type);
    EXPECT_EQ(snack.begin, begin);
    EXPECT_EQ(snack.count, count);
    const bool of_task = type == SnackType::DataOrR2t;
    EXPECT_EQ(snack.initiator_task_tag, of_task ? command.initiator_task_tag : kNoTag);
  }
  static void expect_whole(const Submitted& read) {
    ASSERT_TRUE(read.outcome && read.outcome->is_good());
    EXPECT_TRUE(std::ranges::equal(read.command.data_in.octets(), pattern(1024)));
  }

  ScriptedTarget target;
  ScsiCommand command;
};

TEST(InitiatorRecovery, AsksForDataThatIsMissing) {  // RFC 7143 §11.16.1
  Recovering world{1};
  const Submitted& read = world.read();
  world.send_half(1);
  world.expect_snack(SnackType::DataOrR2t, 0, 1);
  world.target.answer(world.response(2));
  EXPECT_FALSE(read.outcome) << "its data is missing";
  EXPECT_TRUE(world.target.is_quiet()) << "it was asked for";
  world.send_half(0);
  Recovering::expect_whole(read);
}

TEST(InitiatorRecovery, AStatusIsNotAcknowledgedBeforeItsData) {  // RFC 7143 §4.2.2.2
  Recovering world{1};
  const Submitted& read = world.read();
  const std::uint32_t stat_sn = world.target.stat_sn;
  world.target.answer(world.response(2));
  world.expect_snack(SnackType::DataOrR2t, 0, 2);
  const Submitted& other = world.target.submit(true, 0);
  const auto second = world.target.next<ScsiCommand>();
  EXPECT_EQ(second.exp_stat_sn, stat_sn);
  world.send_half(0);
  world.send_half(1);
  Recovering::expect_whole(read);
  world.target.submit(true, 0);
  EXPECT_EQ(world.target.next<ScsiCommand>().exp_stat_sn, stat_sn + 1);
  EXPECT_FALSE(other.outcome);
}

TEST(InitiatorRecovery, DamagedDataIsAskedForAndNotTaken) {  // RFC 7143 §7.8
  Recovering world{1};
  const Submitted& read = world.read();
  world.send_half(0, true);
  world.expect_snack(SnackType::DataOrR2t, 0, 1);
  world.send_half(1);
  world.send_half(0);
  world.target.answer(world.response(2));
  Recovering::expect_whole(read);
}

TEST(InitiatorRecovery, AsksForStatusesThatAreMissingOrDamaged) {
  Recovering world{1};
  const Submitted& first = world.read();
  const ScsiCommand of_first = world.command;
  const Submitted& second = world.read();
  const std::uint32_t stat_sn = world.target.stat_sn;
  ++world.target.stat_sn;  // the first one's status is lost
  ScsiResponse failed = world.response(0);
  failed.status = 2;
  world.target.answer(failed);
  world.expect_snack(SnackType::Status, stat_sn, 1);
  EXPECT_TRUE(second.outcome);
  failed.initiator_task_tag = of_first.initiator_task_tag;
  failed.stat_sn = stat_sn;
  world.target.send(failed, pattern(20), true);
  EXPECT_TRUE(world.target.is_quiet()) << "it is asked for still";
  world.target.send(failed);
  EXPECT_TRUE(first.outcome);
  const Submitted& third = world.read();
  failed.initiator_task_tag = world.command.initiator_task_tag;
  failed.stat_sn = world.target.stat_sn;
  world.target.send(failed, pattern(20), true);
  world.expect_snack(SnackType::Status, failed.stat_sn, 1);
  world.target.send(failed);
  EXPECT_TRUE(third.outcome);
  EXPECT_FALSE(world.target.mover.ended);
}

TEST(InitiatorRecovery, AcknowledgesDataWhenItIsAskedTo) {  // RFC 7143 §11.7.2
  Recovering world{1};
  world.read();
  world.send_half(1, false, true);
  world.expect_snack(SnackType::DataOrR2t, 0, 1);
  EXPECT_TRUE(world.target.is_quiet()) << "not while something is missing";
  world.send_half(0);
  const auto snack = world.target.next<SnackRequest>();
  EXPECT_EQ(snack.type, SnackType::DataAck);
  EXPECT_EQ(snack.target_transfer_tag, 0x99U);
  EXPECT_EQ(snack.initiator_task_tag, kNoTag);
  EXPECT_EQ(snack.begin, 2U);
  EXPECT_EQ(snack.count, 0U);
}

TEST(InitiatorRecovery, AsksForR2tsAndAnswersEachOnce) {
  Recovering world{1};
  world.target.submit(true, 2);
  world.command = world.target.next<ScsiCommand>();
  R2t request;
  request.initiator_task_tag = world.command.initiator_task_tag;
  request.target_transfer_tag = 0x31;
  request.r2t_sn = 1;
  request.buffer_offset = 512;
  request.desired_length = 512;
  world.target.send(request);
  world.expect_snack(SnackType::DataOrR2t, 0, 1);
  EXPECT_EQ(world.target.next<DataOut>().target_transfer_tag, 0x31U);
  world.target.send(request);
  EXPECT_TRUE(world.target.is_quiet());
  request.r2t_sn = 0;
  request.buffer_offset = 0;
  request.target_transfer_tag = 0x30;
  world.target.send(request);
  EXPECT_EQ(world.target.next<DataOut>().target_transfer_tag, 0x30U);
}

TEST(InitiatorRecovery, ACommandThatWasRejectedForItsDigestComesAgain) {  // RFC 7143 §7.8
  Recovering world{1};
  world.target.submit(true, 1);
  world.command = world.target.next<ScsiCommand>();
  Reject reject{.reason = RejectReason::DataDigestError};
  const auto header = world.target.last.header();
  world.target.answer(reject, {header.begin(), header.end()});
  const auto again = world.target.next<ScsiCommand>();
  EXPECT_EQ(again.cmd_sn, world.command.cmd_sn);
  EXPECT_EQ(again.initiator_task_tag, world.command.initiator_task_tag);
  EXPECT_EQ(world.target.session.recoveries().commands_resent, 1U);
  reject.reason = RejectReason::SnackRejected;
  world.target.answer(reject, {header.begin(), header.end()});
  EXPECT_TRUE(world.target.mover.ended);
}

// RFC 7143 §7.2.1: silence is asked about, and what the answer shows to be lost is sent again.
TEST(InitiatorRecovery, AfterASilenceWhatWasLostComesAgain) {
  Recovering world{1};
  world.read();
  world.target.pass(Duration::seconds(2));
  const auto ping = world.target.next<NopOut>();
  NopIn answer;
  answer.initiator_task_tag = ping.initiator_task_tag;
  world.target.answer(answer);  // ExpCmdSN says that the command has not come
  EXPECT_EQ(world.target.next<ScsiCommand>().cmd_sn, world.command.cmd_sn);
  world.acknowledge_commands();
  world.send_half(1);
  world.expect_snack(SnackType::DataOrR2t, 0, 1);
  world.target.pass(Duration::seconds(2));
  answer.initiator_task_tag = world.target.next<NopOut>().initiator_task_tag;
  ++world.target.stat_sn;  // a status, too
  world.target.answer(answer);
  world.expect_snack(SnackType::Status, world.target.stat_sn - 2, 1);
  world.expect_snack(SnackType::DataOrR2t, 0, 1);
  EXPECT_TRUE(world.target.is_quiet());
}

TEST(InitiatorConnections, ComeAfterTheLeadingOneAndShareTheCommands) {  // RFC 7143 §4.2.2.1
  Recovering world{0, 3};
  EXPECT_EQ(world.target.asked_cids, (std::vector<std::uint16_t>{0, 1, 2}));
  EXPECT_EQ(world.target.session.connections(), 3U);
  std::vector<std::uint32_t> numbers;
  for (int i = 0; i < 3; ++i) {
    world.target.submit(true, 0);
  }
  for (world.target.cid = 0; world.target.cid < 3; ++world.target.cid) {
    numbers.push_back(world.target.next<ScsiCommand>().cmd_sn);
    EXPECT_TRUE(world.target.is_quiet());
  }
  EXPECT_EQ(numbers, (std::vector<std::uint32_t>{numbers[0], numbers[0] + 1, numbers[0] + 2}));
}

TEST(InitiatorConnections, AreNoMoreThanTheTargetTakes) {
  ScriptedTarget target{Recovering::options(0, 3)};
  target.session.start(target.now);
  target.log_in();  // MaxConnections=1
  EXPECT_EQ(target.asked_cids.size(), 1U);
}

TEST(InitiatorConnections, OneThatCannotJoinIsTriedAgainAndTheSessionGoesOn) {
  ScriptedTarget target{Recovering::options(0, 2)};
  target.session.start(target.now);
  target.log_in({
      {"MaxConnections", "2"}
  });
  target.session.handle_connect_failed(1, "refused", target.now);
  EXPECT_EQ(target.session.state(), SessionState::Live);
  target.pass(Duration::seconds(2));
  EXPECT_EQ(target.asked_cids, (std::vector<std::uint16_t>{0, 1, 1}));
  target.join(1);
  EXPECT_EQ(target.session.connections(), 2U);
}

TEST(InitiatorConnections, BelowLevel2OneTakesTheSessionAlong) {  // RFC 7143 §7.1
  Recovering world{1, 2};
  const Submitted& read = world.read();
  world.target.cid = 1;
  world.target.lose();
  EXPECT_EQ(world.target.session.state(), SessionState::Live) << "the other one has not ended";
  EXPECT_TRUE(world.target.mover.ended);
  world.target.pass({});
  EXPECT_EQ(world.target.session.state(), SessionState::Blocked);
  EXPECT_TRUE(read.ended_as(Kind::Interrupted));
}

TEST(InitiatorConnections, TasksOfALostOneGoOnByAnother) {  // RFC 7143 §7.2.2, level 2
  Recovering world{2, 2};
  const Submitted& read = world.read();
  world.acknowledge_commands();
  world.send_half(0);
  const std::uint32_t tag = world.command.initiator_task_tag;
  world.target.lose();
  EXPECT_EQ(world.target.session.state(), SessionState::Live);
  world.target.cid = 1;
  world.target.pass(Duration::milliseconds(1900));
  EXPECT_TRUE(world.target.is_quiet()) << "Time2Wait";
  world.target.pass(Duration::milliseconds(100));
  const auto logout = world.target.next<LogoutRequest>();
  EXPECT_EQ(logout.reason, LogoutReason::RemoveForRecovery);
  EXPECT_EQ(logout.cid, 0U);
  EXPECT_EQ(logout.exp_stat_sn, world.target.stat_sns[0])
      << "that of the lost connection (RFC 7143 §11.14.4)";
  LogoutResponse gone;
  gone.initiator_task_tag = logout.initiator_task_tag;
  world.target.answer(gone);
  const auto reassign = world.target.next<TaskManagementRequest>();
  EXPECT_EQ(reassign.function, TaskManagementFunction::TaskReassign);
  EXPECT_EQ(reassign.referenced_task_tag, tag);
  EXPECT_EQ(reassign.exp_data_sn, 1U) << "the first half has come";
  TaskManagementResponse done;
  done.initiator_task_tag = reassign.initiator_task_tag;
  world.target.answer(done);
  world.send_half(1);
  world.target.answer(world.response(2));
  Recovering::expect_whole(read);
  EXPECT_EQ(world.target.session.recoveries().tasks_reassigned, 1U);
  world.target.pass({});
  EXPECT_EQ(world.target.asked_cids.back(), 0U) << "the lost one comes again";
  world.target.join(0);
  EXPECT_EQ(world.target.session.connections(), 2U);
}

TEST(InitiatorConnections, ACommandThatHadNotComeIsSentByAnother) {  // RFC 7143 §7.2.1
  Recovering world{2, 2};
  world.read();
  world.target.lose();
  world.target.cid = 1;
  world.target.pass(Duration::seconds(2));
  LogoutResponse gone;
  gone.initiator_task_tag = world.target.next<LogoutRequest>().initiator_task_tag;
  gone.response = LogoutOutcome::CidNotFound;
  world.target.answer(gone);
  const auto again = world.target.next<ScsiCommand>();
  EXPECT_EQ(again.cmd_sn, world.command.cmd_sn);
  EXPECT_EQ(again.initiator_task_tag, world.command.initiator_task_tag);
}

TEST(InitiatorConnections, TheLastOneIsLoggedInAgainWithItsTasks) {  // RFC 7143 §6.3.4, §7.1.4.3
  Recovering world{2};
  const Submitted& read = world.read();
  world.acknowledge_commands();
  world.target.lose();
  EXPECT_EQ(world.target.session.state(), SessionState::Blocked);
  EXPECT_FALSE(read.outcome);
  world.target.pass(Duration::seconds(2));
  world.target.join(0);
  EXPECT_EQ(world.target.session.state(), SessionState::Live);
  const auto reassign = world.target.next<TaskManagementRequest>();
  EXPECT_EQ(reassign.referenced_task_tag, world.command.initiator_task_tag);
  TaskManagementResponse over;
  over.initiator_task_tag = reassign.initiator_task_tag;
  over.response = TaskManagementOutcome::TaskDoesNotExist;
  world.target.answer(over);
  EXPECT_TRUE(read.ended_as(Kind::Interrupted)) << "nobody knows how it ended";
  EXPECT_EQ(world.target.session.state(), SessionState::Live);
}

TEST(InitiatorConnections, ALoginThatRestartsOneSaysWhatThatHasAcknowledged) {  // RFC 7143 §11.12.9
  Recovering world{2};
  world.read();
  world.acknowledge_commands();
  world.target.lose();
  world.target.pass(Duration::seconds(2));
  world.target.connected();
  const auto login = world.target.next<wire::iscsi::LoginRequest>();
  EXPECT_EQ(login.cid, 0U);
  EXPECT_EQ(login.exp_stat_sn, world.target.stat_sns[0]);
}

// As LIO, which counts a connection that a login restarts for some time after its end.
TEST(InitiatorConnections, ALoginThatIsOneTooManyDoesNotEndTheSession) {
  Recovering world{2};
  const Submitted& read = world.read();
  world.acknowledge_commands();
  world.target.lose();
  world.target.pass(Duration::seconds(2));
  world.target.connected();
  EXPECT_EQ(world.target.next<wire::iscsi::LoginRequest>().tsih, 7);
  world.target.refuse_login(wire::iscsi::LoginStatus::TooManyConnections);
  world.target.pass({});
  EXPECT_FALSE(read.outcome) << "it may go on";
  world.target.pass(Duration::seconds(5));
  world.target.join(0);
  EXPECT_EQ(world.target.session.state(), SessionState::Live);
  EXPECT_EQ(world.target.next<TaskManagementRequest>().function,
            TaskManagementFunction::TaskReassign);
}

// RFC 7143 §11.9.1: it may come by another connection after the new login has begun.
TEST(InitiatorConnections, NewsOfALostOneDoNotEndItsNewLogin) {
  Recovering world{2, 2};
  world.target.lose();
  world.target.cid = 1;
  world.target.pass(Duration::seconds(2));
  LogoutResponse gone;
  gone.initiator_task_tag = world.target.next<LogoutRequest>().initiator_task_tag;
  world.target.answer(gone);
  world.target.pass({});
  world.target.cid = 0;
  world.target.connected();
  world.target.cid = 1;
  AsyncMessage dropped;
  dropped.event = AsyncEvent::ConnectionDropped;
  dropped.parameter1 = 0;
  world.target.answer(dropped);
  EXPECT_FALSE(world.target.mover.ended);
}

TEST(InitiatorConnections, ASessionThatTheTargetHasForgottenBeginsAnew) {
  Recovering world{2};
  const Submitted& read = world.read();
  world.target.lose();
  world.target.pass(Duration::seconds(2));
  world.target.connected();
  EXPECT_EQ(world.target.next<LoginRequest>().tsih, 7);
  world.target.refuse_login(wire::iscsi::LoginStatus::SessionDoesNotExist);
  world.target.pass({});
  EXPECT_TRUE(read.ended_as(Kind::Interrupted));
  world.target.pass(Duration::seconds(2));
  world.target.connected();
  EXPECT_EQ(world.target.next<LoginRequest>().tsih, 0);
}

TEST(InitiatorConnections, ASessionIsNotKeptForLongerThanTheTargetKeepsIt) {
  Recovering world{2};
  const Submitted& read = world.read();
  world.target.lose();
  world.target.pass(Duration::seconds(2));
  world.target.session.handle_connect_failed(0, "refused", world.target.now);
  world.target.pass(Duration::seconds(19));
  EXPECT_FALSE(read.outcome);
  world.target.pass(Duration::seconds(1));
  EXPECT_TRUE(read.ended_as(Kind::Interrupted));
}

TEST(InitiatorConnections, AnAbortWaitsForTheRecoveryOfItsConnection) {  // RFC 7143 §11.5.1
  Recovering world{2, 2};
  Submitted& read = world.read();
  world.target.lose();
  world.target.session.abort(read.command, world.target.now);
  EXPECT_FALSE(read.outcome);
  world.target.cid = 1;
  world.target.pass(Duration::seconds(2));
  LogoutResponse gone;
  gone.initiator_task_tag = world.target.next<LogoutRequest>().initiator_task_tag;
  world.target.answer(gone);
  const auto abort = world.target.next<TaskManagementRequest>();
  EXPECT_EQ(abort.function, TaskManagementFunction::AbortTask);
  TaskManagementResponse done;
  done.initiator_task_tag = abort.initiator_task_tag;
  world.target.answer(done);
  EXPECT_TRUE(read.ended_as(Kind::Aborted));
}

TEST(InitiatorConnections, ALogoutClosesAll) {
  Recovering world{2, 2};
  world.target.session.stop(world.target.now);
  const auto request = world.target.next<LogoutRequest>();
  EXPECT_EQ(request.reason, LogoutReason::CloseSession);
  LogoutResponse response;
  response.initiator_task_tag = request.initiator_task_tag;
  world.target.answer(response);
  EXPECT_TRUE(world.target.movers[0].ended && world.target.movers[1].ended);
  world.target.pass({});
  EXPECT_EQ(world.target.session.state(), SessionState::Idle);
}

}  // namespace
}  // namespace weft::iscsi
