// Error recovery levels 1 and 2 over a target's connections (RFC 7143 §7).

#include <gtest/gtest.h>

#include <vector>

#include "iscsi/testing/scripted_initiator.h"
#include "wire/iscsi/logout.h"
#include "wire/iscsi/nop.h"
#include "wire/iscsi/reject.h"
#include "wire/iscsi/snack.h"
#include "wire/iscsi/task_management.h"

namespace weft::iscsi {
namespace {

using testing::Connection;
using testing::Fixture;
using testing::pattern;
using wire::iscsi::DataIn;
using wire::iscsi::DataOut;
using wire::iscsi::LogoutOutcome;
using wire::iscsi::LogoutReason;
using wire::iscsi::LogoutRequest;
using wire::iscsi::LogoutResponse;
using wire::iscsi::NopOut;
using wire::iscsi::R2t;
using wire::iscsi::Reject;
using wire::iscsi::RejectReason;
using wire::iscsi::ScsiResponse;
using wire::iscsi::SnackRequest;
using wire::iscsi::SnackType;
using wire::iscsi::TaskManagementFunction;
using wire::iscsi::TaskManagementOutcome;
using wire::iscsi::TaskManagementRequest;
using wire::iscsi::TaskManagementResponse;

const TextPairs kLevel1{
    {"ErrorRecoveryLevel",       "1"  },
    {"MaxRecvDataSegmentLength", "512"}
};
const TextPairs kLevel2{
    {"ErrorRecoveryLevel",       "2"  },
    {"MaxConnections",           "2"  },
    {"MaxRecvDataSegmentLength", "512"}
};

TEST(TargetRecovery, SendsDataInAndStatusAgain) {  // RFC 7143 §11.16
  Fixture fixture;
  Connection connection{fixture};
  connection.login(kLevel1);
  connection.clear_attention();
  const auto read = connection.command(false, 0, 4);
  connection.send(read);
  DataIn last;
  for (std::uint32_t i = 0; i < 4; ++i) {
    last = connection.next<DataIn>();
  }
  EXPECT_TRUE(last.has_status && last.acknowledge);
  SnackRequest snack;
  snack.initiator_task_tag = read.initiator_task_tag;
  snack.begin = 1;
  snack.count = 2;
  snack.exp_stat_sn = last.stat_sn;
  connection.send(snack);
  EXPECT_EQ(connection.next<DataIn>().data_sn, 1U);
  EXPECT_EQ(connection.next<DataIn>().data_sn, 2U);
  EXPECT_TRUE(connection.is_quiet());
  snack.type = SnackType::Status;
  snack.begin = last.stat_sn;
  snack.count = 1;
  connection.send(snack);
  const auto again = connection.next<DataIn>();
  EXPECT_EQ(again.stat_sn, last.stat_sn);
  EXPECT_TRUE(again.has_status);
  // What was acknowledged is not kept.
  snack.exp_stat_sn = last.stat_sn + 1;
  connection.send(snack);
  EXPECT_EQ(connection.next<Reject>().reason, RejectReason::SnackRejected);
}

TEST(TargetRecovery, SendsR2tAgain) {
  Fixture fixture;
  Connection connection{fixture};
  connection.login(kLevel1);
  connection.clear_attention();
  const auto write = connection.command(true, 0, 4);
  connection.send(write);
  const auto first = connection.next<R2t>();
  SnackRequest snack;
  snack.initiator_task_tag = write.initiator_task_tag;
  connection.send(snack);
  EXPECT_EQ(connection.next<R2t>().target_transfer_tag, first.target_transfer_tag);
}

TEST(TargetRecovery, AsksAgainForDataOutThatWasLostOrDamaged) {  // RFC 7143 §7.8, §7.9
  Fixture fixture;
  Connection connection{fixture};
  connection.login(kLevel1);
  connection.clear_attention();
  const auto write = connection.command(true, 0, 2);
  connection.send(write);
  const auto wanted = connection.next<R2t>();
  const std::vector<std::byte> data = pattern(1024);
  DataOut part;
  part.initiator_task_tag = write.initiator_task_tag;
  part.target_transfer_tag = wanted.target_transfer_tag;
  part.final = true;
  connection.send(part, data, true);
  EXPECT_EQ(connection.next<Reject>().reason, RejectReason::DataDigestError);
  const auto again = connection.next<R2t>();
  EXPECT_EQ(again.desired_length, 1024U);
  EXPECT_EQ(again.r2t_sn, 1U);
  // Nothing comes: after a time it is asked for once more.
  const Instant later{Duration::seconds(2)};
  EXPECT_EQ(fixture.server.deadline(), later);
  fixture.server.handle_timeout(later);
  const auto third = connection.next<R2t>();
  part.target_transfer_tag = third.target_transfer_tag;
  connection.send(part, data);
  const auto response = connection.next<ScsiResponse>();
  EXPECT_EQ(response.status, 0);
  EXPECT_EQ(response.exp_data_sn, 3U);
}

TEST(TargetRecovery, RejectsDamagedDataOfOtherPdus) {
  Fixture fixture;
  Connection level1{fixture};
  level1.login(kLevel1);
  NopOut ping;
  ping.initiator_task_tag = 5;
  ping.cmd_sn = level1.cmd_sn;
  level1.send(ping, pattern(4), true);
  EXPECT_EQ(level1.next<Reject>().reason, RejectReason::DataDigestError);
  EXPECT_FALSE(level1.mover.ended);
  Connection level0{fixture};
  level0.isid = 9;
  level0.login();
  level0.send(ping, pattern(4), true);
  EXPECT_TRUE(level0.mover.ended);
}

TEST(TargetRecovery, RefusesSnackAtLevel0) {
  Fixture fixture;
  Connection connection{fixture};
  connection.login();
  connection.send(SnackRequest{});
  EXPECT_EQ(connection.next<Reject>().reason, RejectReason::SnackRejected);
}

[[nodiscard]] TaskManagementOutcome reassign(Connection& connection, std::uint32_t task,
                                             std::uint32_t exp_data_sn = 0) {
  TaskManagementRequest request;
  request.immediate = true;
  request.function = TaskManagementFunction::TaskReassign;
  request.initiator_task_tag = 1000;
  request.referenced_task_tag = task;
  request.exp_data_sn = exp_data_sn;
  connection.send(request);
  return connection.next<TaskManagementResponse>().response;
}

TEST(TargetRecovery, KeepsTasksOfALostConnectionForAnother) {  // RFC 7143 §7.2.2, level 2
  Fixture fixture;
  Connection first{fixture};
  const auto leading = first.login(kLevel2);
  first.clear_attention();
  Connection second{fixture};
  second.cid = 2;
  second.login({}, leading.tsih);
  const auto read = first.command(false, 0, 1);
  first.send(read);  // answered, but the answer is lost
  const auto write = first.command(true, 8, 2);
  first.send(write);
  EXPECT_EQ(reassign(second, read.initiator_task_tag), TaskManagementOutcome::TaskStillAllegiant);
  first.lose();
  EXPECT_EQ(fixture.server.sessions(), 1U);
  EXPECT_EQ(reassign(second, 12345), TaskManagementOutcome::TaskDoesNotExist);
  EXPECT_EQ(reassign(second, read.initiator_task_tag), TaskManagementOutcome::Complete);
  const auto data = second.next<DataIn>();
  EXPECT_EQ(data.initiator_task_tag, read.initiator_task_tag);
  EXPECT_TRUE(data.has_status);
  EXPECT_EQ(reassign(second, write.initiator_task_tag), TaskManagementOutcome::Complete);
  const auto wanted = second.next<R2t>();
  DataOut part;
  part.initiator_task_tag = write.initiator_task_tag;
  part.target_transfer_tag = wanted.target_transfer_tag;
  part.final = true;
  second.send(part, pattern(1024));
  EXPECT_EQ(second.next<ScsiResponse>().status, 0);
}

TEST(TargetRecovery, ATaskThatEndsWithoutAConnectionIsAnsweredWholeByTheNext) {
  Fixture fixture;
  Connection first{fixture};
  const auto leading = first.login(kLevel2);
  first.clear_attention();
  Connection second{fixture};
  second.cid = 2;
  second.login({}, leading.tsih);
  fixture.gate.holds = true;
  const auto read = first.command(false, 0, 2);
  first.send(read);
  first.lose();
  ASSERT_TRUE(fixture.gate.release()) << "the disk has it still";
  fixture.server.handle_completions(second.now);
  EXPECT_TRUE(second.is_quiet());
  EXPECT_EQ(reassign(second, read.initiator_task_tag), TaskManagementOutcome::Complete);
  std::vector<std::byte> data;
  EXPECT_TRUE(second.next<DataIn>(&data).has_status);
  EXPECT_EQ(data.size(), 1024U);
  EXPECT_TRUE(second.is_quiet());
}

// Nobody will ask for it any more, so what the disk still has of it is aborted, and no answer
// comes.
TEST(TargetRecovery, ATaskThatTheDiskExecutesIsAbortedWhenNobodyReassignsIt) {
  Fixture fixture;
  Connection first{fixture};
  const auto leading = first.login(kLevel2);
  first.clear_attention();
  Connection second{fixture};
  second.cid = 2;
  second.login({}, leading.tsih);
  fixture.gate.holds = true;
  const auto read = first.command(false, 0, 1);
  first.send(read);
  first.lose();
  second.now = Instant{Duration::seconds(22)};
  fixture.server.handle_timeout(second.now);
  EXPECT_EQ(reassign(second, read.initiator_task_tag), TaskManagementOutcome::TaskDoesNotExist);
  ASSERT_TRUE(fixture.gate.release());
  fixture.server.handle_completions(second.now);
  EXPECT_TRUE(second.is_quiet());
}

TEST(TargetRecovery, EndsTasksThatNobodyReassignsInTime) {
  Fixture fixture;
  Connection first{fixture};
  const auto leading = first.login(kLevel2);
  first.clear_attention();
  Connection second{fixture};
  second.cid = 2;
  second.login({}, leading.tsih);
  const auto write = first.command(true, 8, 2);
  first.send(write);
  first.lose();
  second.now = Instant{Duration::seconds(22)};  // Time2Wait and Time2Retain
  fixture.server.handle_timeout(second.now);
  EXPECT_EQ(reassign(second, write.initiator_task_tag), TaskManagementOutcome::TaskDoesNotExist);
  second.lose();
  EXPECT_EQ(fixture.server.sessions(), 1U) << "it waits for its initiator";
  fixture.server.handle_timeout(Instant{Duration::seconds(44)});
  EXPECT_EQ(fixture.server.sessions(), 0U);
}

// A new login with its CID is not yet another allegiance (RFC 7143 §7.2.2).
TEST(TargetRecovery, EndsTasksThatNobodyReassignsThoughTheirConnectionCameBack) {
  Fixture fixture;
  Connection first{fixture};
  const auto leading = first.login(kLevel2);
  first.clear_attention();
  const auto write = first.command(true, 8, 2);
  first.send(write);
  first.lose();
  Connection again{fixture};
  again.login({}, leading.tsih);
  EXPECT_EQ(fixture.server.sessions(), 1U);
  fixture.server.handle_timeout(Instant{Duration::seconds(21)});
  again.now = Instant{Duration::seconds(22)};
  fixture.server.handle_timeout(again.now);
  EXPECT_EQ(reassign(again, write.initiator_task_tag), TaskManagementOutcome::TaskDoesNotExist);
  EXPECT_EQ(fixture.server.sessions(), 1U);
}

// RFC 7143 §4.2.3.3: what was sent before it may come later, by another connection.
TEST(TargetRecovery, AFunctionOverAUnitWaitsForTheCommandsBeforeIt) {
  Fixture fixture;
  Connection first{fixture};
  const auto leading = first.login(kLevel2);
  first.clear_attention();
  Connection second{fixture};
  second.cid = 2;
  second.login({}, leading.tsih);
  const auto write = first.command(true, 8, 2);
  TaskManagementRequest reset;
  reset.immediate = true;
  reset.function = TaskManagementFunction::LogicalUnitReset;
  reset.initiator_task_tag = 1000;
  reset.cmd_sn = write.cmd_sn + 1;
  second.send(reset);
  EXPECT_TRUE(second.is_quiet());
  first.send(write);
  EXPECT_EQ(second.next<TaskManagementResponse>().response, TaskManagementOutcome::Complete);
  EXPECT_TRUE(first.is_quiet()) << "it was reset, so that nobody asks for its data";
}

// RFC 7143 §11.6.1: its CmdSN is not missing again, for nobody sends it once more.
TEST(TargetRecovery, AnAbortedCommandCountsAsReceivedThoughItsConnectionIsLost) {
  Fixture fixture;
  Connection first{fixture};
  const auto leading = first.login(kLevel2);
  first.clear_attention();
  Connection second{fixture};
  second.cid = 2;
  second.login({}, leading.tsih);
  const auto lost = first.command(false, 0, 1);
  const auto aborted = first.command(false, 1, 1);
  const auto next = first.command(false, 2, 1);
  first.send(aborted);  // it waits for the one before
  TaskManagementRequest abort;
  abort.immediate = true;
  abort.function = TaskManagementFunction::AbortTask;
  abort.initiator_task_tag = 1000;
  abort.referenced_task_tag = aborted.initiator_task_tag;
  abort.ref_cmd_sn = aborted.cmd_sn;
  abort.cmd_sn = next.cmd_sn;
  first.send(abort);
  EXPECT_EQ(first.next<TaskManagementResponse>().response, TaskManagementOutcome::Complete);
  first.lose();
  second.send(lost);
  EXPECT_EQ(second.next<DataIn>().initiator_task_tag, lost.initiator_task_tag);
  second.send(next);
  const auto answer = second.next<DataIn>();
  EXPECT_EQ(answer.initiator_task_tag, next.initiator_task_tag);
  EXPECT_EQ(answer.exp_cmd_sn, next.cmd_sn + 1);
}

// Else its CmdSN would be missing when the connection is lost after the answer.
TEST(TargetRecovery, ARefusedCommandIsAnsweredInItsTurn) {
  Fixture fixture;
  Connection connection{fixture};
  connection.login({
      {"ErrorRecoveryLevel", "2" },
      {"ImmediateData",      "No"}
  });
  connection.clear_attention();
  const auto before = connection.command(false, 0, 1);
  const auto refused = connection.command(true, 8, 1);
  connection.send(refused, pattern(512));
  EXPECT_TRUE(connection.is_quiet());
  connection.send(before);
  const auto response = connection.next<ScsiResponse>();
  EXPECT_EQ(response.initiator_task_tag, refused.initiator_task_tag);
  EXPECT_EQ(response.status, 2);
  EXPECT_EQ(response.exp_cmd_sn, refused.cmd_sn + 1);
  EXPECT_EQ(connection.next<DataIn>().initiator_task_tag, before.initiator_task_tag);
}

// RFC 7143 §11.14.4: its ExpStatSN is that of the connection which it names.
TEST(TargetRecovery, ALogoutForRecoveryAcknowledgesStatusesOfTheLostConnection) {
  Fixture fixture;
  Connection first{fixture};
  const auto leading = first.login(kLevel2);
  first.clear_attention();
  Connection second{fixture};
  second.cid = 2;
  second.login({}, leading.tsih);
  const auto known = first.command(false, 0, 1);
  first.send(known);
  const auto known_answer = first.next<DataIn>();
  const auto unknown = first.command(false, 1, 1);
  first.send(unknown);
  second.cmd_sn = first.cmd_sn;
  second.next_tag = 50;
  const auto own = second.command(false, 2, 1);
  second.send(own);
  const auto own_answer = second.next<DataIn>();
  ASSERT_GT(known_answer.stat_sn + 1, own_answer.stat_sn) << "it would acknowledge here, too";
  first.lose();
  LogoutRequest logout;
  logout.immediate = true;
  logout.reason = LogoutReason::RemoveForRecovery;
  logout.initiator_task_tag = 9;
  logout.cid = first.cid;
  logout.exp_stat_sn = known_answer.stat_sn + 1;
  second.send(logout);
  EXPECT_EQ(second.next<LogoutResponse>().response, LogoutOutcome::Success);
  EXPECT_EQ(reassign(second, known.initiator_task_tag), TaskManagementOutcome::TaskDoesNotExist);
  EXPECT_EQ(reassign(second, unknown.initiator_task_tag), TaskManagementOutcome::Complete);
  EXPECT_EQ(second.next<DataIn>().initiator_task_tag, unknown.initiator_task_tag);
  SnackRequest snack;
  snack.type = SnackType::Status;
  snack.begin = own_answer.stat_sn;
  snack.count = 1;
  second.send(snack);
  EXPECT_EQ(second.next<DataIn>().initiator_task_tag, own.initiator_task_tag)
      << "its own statuses were not acknowledged";
}

TEST(TargetRecovery, ALoginThatRestartsAConnectionAcknowledgesItsStatuses) {  // RFC 7143 §11.12.9
  Fixture fixture;
  Connection first{fixture};
  const auto leading = first.login(kLevel2);
  first.clear_attention();
  const auto known = first.command(false, 0, 1);
  first.send(known);
  const auto known_answer = first.next<DataIn>();
  const auto unknown = first.command(false, 1, 1);
  first.send(unknown);
  first.lose();
  Connection again{fixture};
  wire::iscsi::LoginRequest request;
  request.transit = true;
  request.current_stage = wire::iscsi::LoginStage::LoginOperationalNegotiation;
  request.next_stage = wire::iscsi::LoginStage::FullFeature;
  request.tsih = leading.tsih;
  request.exp_stat_sn = known_answer.stat_sn + 1;
  EXPECT_EQ(again
                .login_step(request,
                            TextPairs{
                                {"InitiatorName", testing::kInitiatorName},
                                {"SessionType",   "Normal"               },
                                {"TargetName",    testing::kTargetName   }
  })
                .status,
            wire::iscsi::LoginStatus::Success);
  EXPECT_EQ(reassign(again, known.initiator_task_tag), TaskManagementOutcome::TaskDoesNotExist);
  EXPECT_EQ(reassign(again, unknown.initiator_task_tag), TaskManagementOutcome::Complete);
}

// Each connection has StatSNs of its own.
TEST(TargetRecovery, AnAcknowledgementOfALaterConnectionIsNoneOfTheOneBefore) {
  Fixture fixture;
  Connection first{fixture};
  const auto leading = first.login(kLevel2);
  first.clear_attention();
  const auto unknown = first.command(false, 1, 1);
  first.send(unknown);
  static_cast<void>(first.next<DataIn>());
  first.lose();
  Connection again{fixture};
  again.login({}, leading.tsih);
  again.lose();
  Connection second{fixture};
  second.cid = 2;
  second.login({}, leading.tsih);
  LogoutRequest logout;
  logout.immediate = true;
  logout.reason = LogoutReason::RemoveForRecovery;
  logout.initiator_task_tag = 9;
  logout.cid = first.cid;
  logout.exp_stat_sn = 1000;
  second.send(logout);
  EXPECT_EQ(second.next<LogoutResponse>().response, LogoutOutcome::Success);
  EXPECT_EQ(reassign(second, unknown.initiator_task_tag), TaskManagementOutcome::Complete);
}

}  // namespace
}  // namespace weft::iscsi
