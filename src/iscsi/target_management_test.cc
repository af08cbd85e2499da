// Task management, text, NOP and logout over a target's connection (RFC 7143 §11.5, §11.10, §11.14,
// §11.18).

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "iscsi/testing/scripted_initiator.h"
#include "wire/iscsi/async_message.h"
#include "wire/iscsi/logout.h"
#include "wire/iscsi/nop.h"
#include "wire/iscsi/reject.h"
#include "wire/iscsi/task_management.h"
#include "wire/iscsi/text.h"

namespace weft::iscsi {
namespace {

using testing::Connection;
using testing::Fixture;
using testing::pattern;
using wire::iscsi::AsyncMessage;
using wire::iscsi::DataIn;
using wire::iscsi::kNoTag;
using wire::iscsi::LogoutOutcome;
using wire::iscsi::LogoutReason;
using wire::iscsi::LogoutRequest;
using wire::iscsi::LogoutResponse;
using wire::iscsi::NopIn;
using wire::iscsi::NopOut;
using wire::iscsi::R2t;
using wire::iscsi::Reject;
using wire::iscsi::TaskManagementFunction;
using wire::iscsi::TaskManagementOutcome;
using wire::iscsi::TaskManagementRequest;
using wire::iscsi::TaskManagementResponse;
using wire::iscsi::TextRequest;
using wire::iscsi::TextResponse;

struct LoggedIn {
  LoggedIn() {
    connection.login();
    connection.clear_attention();
  }
  [[nodiscard]] TaskManagementOutcome manage(TaskManagementFunction function,
                                             std::uint32_t task = kNoTag,
                                             std::uint32_t ref_cmd_sn = 0, std::uint64_t lun = 0) {
    TaskManagementRequest request;
    request.immediate = true;
    request.function = function;
    request.lun = lun;
    request.initiator_task_tag = connection.next_tag++;
    request.referenced_task_tag = task;
    request.ref_cmd_sn = ref_cmd_sn;
    request.cmd_sn = connection.cmd_sn;
    connection.send(request);
    const auto response = connection.next<TaskManagementResponse>();
    EXPECT_EQ(response.initiator_task_tag, request.initiator_task_tag);
    return response.response;
  }
  Fixture fixture;
  Connection connection{fixture};
};

TEST(TargetManagement, AbortsATaskThatWaitsForItsData) {
  LoggedIn session;
  const auto write = session.connection.command(true, 0, 4);
  session.connection.send(write);
  static_cast<void>(session.connection.next<R2t>());
  EXPECT_EQ(
      session.manage(TaskManagementFunction::AbortTask, write.initiator_task_tag, write.cmd_sn),
      TaskManagementOutcome::Complete);
  EXPECT_TRUE(session.connection.is_quiet()) << "no status for it";
  EXPECT_EQ(
      session.manage(TaskManagementFunction::AbortTask, write.initiator_task_tag, write.cmd_sn),
      TaskManagementOutcome::TaskDoesNotExist);
}

TEST(TargetManagement, AnAbortedTaskHoldsUpNoOrderedOneBehindIt) {
  LoggedIn session;
  const auto write = session.connection.command(true, 0, 4);
  session.connection.send(write);
  static_cast<void>(session.connection.next<R2t>());
  auto ordered = session.connection.command(false, 0, 1);
  ordered.attribute = wire::iscsi::TaskAttributeCode::Ordered;
  session.connection.send(ordered);
  EXPECT_TRUE(session.connection.is_quiet());
  EXPECT_EQ(
      session.manage(TaskManagementFunction::AbortTask, write.initiator_task_tag, write.cmd_sn),
      TaskManagementOutcome::Complete);
  EXPECT_EQ(session.connection.next<DataIn>().initiator_task_tag, ordered.initiator_task_tag);
}

TEST(TargetManagement, CountsACommandThatIsUnderWayAsReceived) {  // RFC 7143 §11.5.5
  LoggedIn session;
  const auto lost = session.connection.command(false, 0, 1);
  EXPECT_EQ(session.manage(TaskManagementFunction::AbortTask, lost.initiator_task_tag, lost.cmd_sn),
            TaskManagementOutcome::Complete);
  session.connection.send(lost);
  EXPECT_TRUE(session.connection.is_quiet()) << "it comes too late";
  session.connection.send(session.connection.command(false, 0, 1));
  EXPECT_EQ(session.connection.next<DataIn>().status, 0);
}

TEST(TargetManagement, PerformsEachFunction) {
  using enum TaskManagementFunction;
  LoggedIn session;
  for (const auto function : {AbortTaskSet, ClearTaskSet, LogicalUnitReset, TargetWarmReset}) {
    session.connection.send(session.connection.command(true, 0, 4));
    static_cast<void>(session.connection.next<R2t>());
    EXPECT_EQ(session.manage(function), TaskManagementOutcome::Complete);
    EXPECT_TRUE(session.connection.is_quiet());
  }
  EXPECT_EQ(session.manage(QueryTask, 77), TaskManagementOutcome::Complete) << "no such task";
  EXPECT_EQ(session.manage(LogicalUnitReset, kNoTag, 0, std::uint64_t{9} << 48),
            TaskManagementOutcome::LunDoesNotExist);
  EXPECT_EQ(session.manage(TaskReassign, 77), TaskManagementOutcome::ReassignmentNotSupported);
  EXPECT_EQ(session.manage(static_cast<TaskManagementFunction>(99)),
            TaskManagementOutcome::NotSupported);
  EXPECT_EQ(session.manage(TargetColdReset), TaskManagementOutcome::Complete);
  EXPECT_TRUE(session.connection.mover.ended);
  EXPECT_EQ(session.fixture.server.sessions(), 0U);
}

TEST(TargetNop, EchoesItsDataBothWays) {  // RFC 7143 §11.18, §11.19
  LoggedIn session;
  NopOut ping;
  ping.initiator_task_tag = 7;
  ping.cmd_sn = session.connection.cmd_sn++;
  session.connection.send(ping, pattern(100));
  std::vector<std::byte> data;
  const auto echo = session.connection.next<NopIn>(&data);
  EXPECT_EQ(echo.initiator_task_tag, 7U);
  EXPECT_EQ(echo.target_transfer_tag, kNoTag);
  EXPECT_EQ(data, pattern(100));
  session.connection.now = Instant{Duration::seconds(30)};
  session.fixture.server.handle_timeout(session.connection.now);
  const auto own = session.connection.next<NopIn>();
  EXPECT_EQ(own.initiator_task_tag, kNoTag);
  EXPECT_NE(own.target_transfer_tag, kNoTag);
  EXPECT_EQ(own.stat_sn, echo.stat_sn + 1) << "it takes no StatSN";
  NopOut answer;
  answer.immediate = true;
  answer.target_transfer_tag = own.target_transfer_tag;
  answer.cmd_sn = session.connection.cmd_sn;
  session.connection.send(answer);
  EXPECT_TRUE(session.connection.is_quiet());
  session.fixture.server.handle_timeout(Instant{Duration::seconds(60)});
  static_cast<void>(session.connection.next<NopIn>());
  session.fixture.server.handle_timeout(Instant{Duration::seconds(75)});
  EXPECT_TRUE(session.connection.mover.ended);
  EXPECT_EQ(session.fixture.server.sessions(), 0U);
}

TEST(TargetLogout, ClosesASessionOrAConnection) {  // RFC 7143 §11.14
  for (const LogoutReason reason : {LogoutReason::CloseSession, LogoutReason::CloseConnection}) {
    LoggedIn session;
    LogoutRequest request;
    request.immediate = true;
    request.reason = reason;
    request.initiator_task_tag = 9;
    request.cid = session.connection.cid;
    session.connection.send(request);
    const auto response = session.connection.next<LogoutResponse>();
    EXPECT_EQ(response.response, LogoutOutcome::Success);
    EXPECT_EQ(response.time_to_wait_seconds, 2);
    EXPECT_TRUE(session.connection.mover.ended);
    EXPECT_EQ(session.fixture.server.sessions(), 0U);
    EXPECT_EQ(session.fixture.scsi.nexuses(), 0U);
  }
}

TEST(TargetLogout, RefusesWhatIsNotThere) {
  LoggedIn session;
  LogoutRequest request;
  request.immediate = true;
  request.reason = LogoutReason::CloseConnection;
  request.cid = 99;
  session.connection.send(request);
  EXPECT_EQ(session.connection.next<LogoutResponse>().response, LogoutOutcome::CidNotFound);
  request.reason = LogoutReason::RemoveForRecovery;
  session.connection.send(request);
  EXPECT_EQ(session.connection.next<LogoutResponse>().response,
            LogoutOutcome::RecoveryNotSupported);
  EXPECT_FALSE(session.connection.mover.ended);
}

[[nodiscard]] std::string ask(Connection& connection, std::string_view key, std::string_view value,
                              TextRequest request = {}) {
  TextWriter text;
  text.add(key, value);
  request.final = true;
  request.immediate = true;
  request.initiator_task_tag = 3;
  request.target_transfer_tag = kNoTag;
  connection.send(request, to_octets(text.text()));
  std::string all;
  while (true) {
    std::vector<std::byte> data;
    const auto part = connection.next<TextResponse>(&data);
    all += to_characters(data);
    EXPECT_LE(data.size(), 512U);
    EXPECT_EQ(part.final, part.target_transfer_tag == kNoTag);
    if (part.final || data.empty()) {
      return all;
    }
    EXPECT_TRUE(part.continues);
    request.target_transfer_tag = part.target_transfer_tag;
    connection.send(request);
  }
}

TEST(TargetDiscovery, ListsTargetsHoweverLongTheAnswer) {  // RFC 7143 appendix C
  Fixture fixture;
  for (int i = 0; i < 40; ++i) {
    NodeOptions more = fixture.node;
    more.name = fmt::format("iqn.2026-01.org.example:more-{}", i);
    more.initiators = {i % 2 == 0 ? std::string{testing::kInitiatorName} : "iqn.other"};
    ASSERT_TRUE(fixture.server.add_node(more).has_value());
  }
  Connection connection{fixture};
  wire::iscsi::LoginRequest login;
  login.transit = true;
  login.current_stage = wire::iscsi::LoginStage::LoginOperationalNegotiation;
  login.next_stage = wire::iscsi::LoginStage::FullFeature;
  EXPECT_EQ(connection
                .login_step(login,
                            TextPairs{
                                {"InitiatorName",            testing::kInitiatorName},
                                {"SessionType",              "Discovery"            },
                                {"MaxRecvDataSegmentLength", "512"                  }
  })
                .status,
            wire::iscsi::LoginStatus::Success);
  const std::string text = ask(connection, "SendTargets", "All");
  const auto pairs = parse_text(text);
  ASSERT_TRUE(pairs.has_value());
  EXPECT_EQ(pairs->size(), 2U * 21) << "those that this initiator may use";
  EXPECT_EQ((*pairs)[0].value, testing::kTargetName);
  EXPECT_EQ((*pairs)[1].value, "127.0.0.1:3260,1");
  EXPECT_EQ(ask(connection, "SendTargets", "iqn.none"), "");
  connection.send(connection.command(false, 0, 1));
  EXPECT_EQ(connection.next<Reject>().reason, wire::iscsi::RejectReason::ProtocolError);
}

TEST(TargetText, KnowsItsOwnTargetAndDeclaresAgain) {
  LoggedIn session;
  EXPECT_TRUE(ask(session.connection, "SendTargets", "").contains(testing::kTargetName));
  EXPECT_TRUE(ask(session.connection, "SendTargets", "All").contains("Reject"));
  EXPECT_EQ(ask(session.connection, "MaxRecvDataSegmentLength", "512"), "");
  session.connection.send(session.connection.command(false, 0, 2));
  EXPECT_FALSE(session.connection.next<DataIn>().has_status) << "512 octets a PDU from now on";
  EXPECT_TRUE(session.connection.next<DataIn>().has_status);
}

TEST(TargetReject, AnswersWhatItDoesNotKnow) {
  LoggedIn session;
  NopOut unknown;
  unknown.opcode = static_cast<wire::iscsi::Opcode>(0x1C);
  session.connection.send(unknown);
  EXPECT_EQ(session.connection.next<Reject>().reason,
            wire::iscsi::RejectReason::CommandNotSupported);
  wire::iscsi::LoginRequest login;
  session.connection.send(login);
  EXPECT_EQ(session.connection.next<Reject>().reason, wire::iscsi::RejectReason::ProtocolError);
}

TEST(TargetShutdown, TellsInitiators) {  // RFC 7143 §11.9.1
  LoggedIn session;
  session.fixture.server.shut_down({});
  EXPECT_EQ(session.connection.next<AsyncMessage>().event, wire::iscsi::AsyncEvent::SessionDropped);
  EXPECT_TRUE(session.connection.mover.ended);
}

}  // namespace
}  // namespace weft::iscsi
