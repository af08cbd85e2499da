#include "ulp/srp/session.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "wire/testing/srp_tables.h"

namespace weft::srp {
namespace {

using Octets = std::vector<std::byte>;

/// A target port that a test plays by hand, and the initiator's client.
class SrpSession : public ::testing::Test,
                   public SessionClient,
                   public InitiatorConnection,
                   public MemoryMapper {
 protected:
  void connect(ByteSpan login_req) override {
    logins.emplace_back(login_req.begin(), login_req.end());
  }
  Result<void> post_send(ByteSpan unit) override {
    EXPECT_TRUE(wire::srp_tables::decode_unit(unit).faults.empty());
    units.emplace_back(unit.begin(), unit.end());
    return {};
  }
  void disconnect() override { ++disconnects; }
  Result<Mapping> map(std::span<const LocalPiece> pieces) override {
    Mapping mapping{.token = ++mapped};
    for (const LocalPiece& piece : pieces) {
      mapping.segments.push_back(
          {.address = piece.address, .key = RKey{9}, .length = piece.length});
    }
    return mapping;
  }
  Result<Mapping> place_table(ByteSpan octets) override {
    table.assign(octets.begin(), octets.end());
    return Mapping{.segments = {{.address = 0x7000,
                                 .key = RKey{8},
                                 .length = static_cast<std::uint32_t>(octets.size())}},
                   .token = ++mapped};
  }
  void unmap(std::uint64_t /*token*/) override { ++unmapped; }
  void handle_outcome(std::uint64_t id, const Outcome& outcome) override {
    EXPECT_FALSE(outcomes.contains(id)) << "a request ends once";
    outcomes[id] = outcome;
  }
  void handle_path_state(PathState /*state*/) override {}
  void handle_event(std::uint64_t lun, ByteSpan sense) override {
    event_lun = lun;
    event_bytes = sense.size();
  }

  void log_in(std::int32_t credits = 4, std::uint32_t max_iu = 8260) {
    if (session.state() == PathState::Idle) {
      session.start(now);
    }
    session.handle_connected(wire::pack(wire::SrpLoginRsp{.request_limit_delta = credits,
                                                          .max_initiator_iu_length = max_iu,
                                                          .max_target_iu_length = 256,
                                                          .immediate_data = true}),
                             now);
  }
  [[nodiscard]] static Request ping(std::uint64_t id) { return {.id = id, .cdb = Octets(6)}; }
  void submit(Request request) { EXPECT_TRUE(session.submit(std::move(request), now).has_value()); }
  [[nodiscard]] wire::SrpCommandUnit command(std::size_t index) {
    return *wire::parse_srp_command(units.at(index), wire::kSrpDefaultImmediateOffset);
  }
  void respond(std::uint64_t tag, std::int32_t delta = 1,
               std::optional<wire::SrpResponseCode> code = std::nullopt) {
    session.handle_receive(
        wire::to_unit(wire::SrpResponseUnit{
            .header = {.request_limit_delta = delta, .tag = tag},
              .response_code = code
    }),
        now);
  }
  void pass(Duration time) {
    const Instant end = now + time;
    while (session.deadline() <= end) {
      now = session.deadline();
      session.handle_timeout(now);
    }
    now = end;
  }

  Instant now{};
  std::vector<Octets> logins;
  std::vector<Octets> units;
  Octets table;
  std::map<std::uint64_t, Outcome> outcomes;
  int disconnects{};
  std::uint64_t mapped{};
  std::uint64_t unmapped{};
  std::uint64_t event_lun{};
  std::size_t event_bytes{};
  Session session{
      *this, *this, *this, {.initiator_port_id = {std::byte{1}}, .target_port_id = {std::byte{2}}}
  };
};

TEST_F(SrpSession, LoginNamesBothPortsAndFormats) {  // R-SRPI-3
  session.start(now);
  const auto login = wire::srp_tables::decode_unit(logins.at(0));
  EXPECT_TRUE(login.faults.empty());
  EXPECT_EQ(login.numbers.at("REQUIRED BUFFER FORMATS"), 6U);
  EXPECT_EQ(login.numbers.at("REQUESTED INITIATOR TO TARGET IU LENGTH"), 8260U);
  EXPECT_EQ(login.octets.at("INITIATOR PORT IDENTIFIER")[0], std::byte{1});
  EXPECT_EQ(login.octets.at("TARGET PORT IDENTIFIER")[0], std::byte{2});
  log_in(7);
  EXPECT_EQ(session.state(), PathState::Live);
  EXPECT_EQ(session.credits(), 7);
}

TEST_F(SrpSession, OneCreditMeansOneCommandAtATimeAndOneAbort) {  // T-SRPI-3
  log_in(2);  // one for commands, one for task management
  for (std::uint64_t id = 1; id <= 3; ++id) {
    submit(ping(id));
  }
  EXPECT_EQ(units.size(), 1U);
  EXPECT_EQ(session.credits(), 1);
  EXPECT_TRUE(session.abort(1, now).has_value());
  ASSERT_EQ(units.size(), 2U);
  EXPECT_EQ(session.credits(), 0);
  const auto task = wire::parse<wire::SrpTskMgmt>(units[1]);
  EXPECT_EQ(task->function, wire::SrpTaskFunction::AbortTask);
  EXPECT_EQ(task->task_tag, command(0).header.tag);
  EXPECT_EQ(task->tag >> 63, 1U);
  respond(task->tag, 2, wire::SrpResponseCode::Complete);
  EXPECT_EQ(outcomes.at(1).kind, Outcome::Kind::Aborted);
  ASSERT_EQ(units.size(), 3U);  // the next command, not two
  respond(command(2).header.tag);
  ASSERT_EQ(units.size(), 4U);
  respond(command(3).header.tag);
  EXPECT_TRUE(outcomes.at(2).is_good() && outcomes.at(3).is_good());
  EXPECT_EQ(session.credits(), 2);
}

TEST_F(SrpSession, OfALimitThatLeavesNoCommandIsNone) {  // T-SRPI-3
  log_in(1);
  EXPECT_NE(session.state(), PathState::Live);
  EXPECT_EQ(session.violations(), 1U);
}

TEST_F(SrpSession, AnswersCreditsAndEventsWithoutACredit) {  // R-SRPI-4
  log_in(2);
  session.handle_receive(wire::to_unit(wire::SrpCredReq{.request_limit_delta = 3, .tag = 77}), now);
  EXPECT_EQ(session.credits(), 5);
  EXPECT_EQ(wire::parse<wire::SrpCredRsp>(units.at(0))->tag, 77U);
  const Octets sense(18);
  session.handle_receive(
      wire::to_unit(wire::SrpAerUnit{
          .header = {.request_limit_delta = 1, .tag = 78, .lun = 5},
            .sense = sense
  }),
      now);
  EXPECT_EQ(session.credits(), 6);
  EXPECT_EQ(*wire::srp_opcode(units.at(1)), wire::SrpOpcode::AerRsp);
  EXPECT_EQ(wire::parse<wire::SrpAerRsp>(units.at(1))->tag, 78U);
  EXPECT_EQ(event_lun, 5U);
  EXPECT_EQ(event_bytes, 18U);
}

TEST_F(SrpSession, DescribesDataAsItsPiecesAre) {  // R-SRPI-6
  log_in(9, 200);
  Request one{.id = 1, .cdb = Octets(10), .direction = Request::Direction::In};
  one.memory = {
      {.address = 0x1000, .length = 512}
  };
  submit(one);
  EXPECT_EQ(command(0).data_in.format, wire::SrpBufferFormat::Direct);
  Request many = one;
  many.id = 2;
  many.direction = Request::Direction::Out;
  for (std::uint64_t i = 0; i < 20; ++i) {
    many.memory.push_back({.address = 0x2000 + i * 0x1000, .length = 512});
  }
  submit(many);
  const auto unit = command(1);
  EXPECT_EQ(unit.data_out.format, wire::SrpBufferFormat::Indirect);
  EXPECT_EQ(unit.data_out.length, 21U * 512);
  EXPECT_EQ(unit.data_out.descriptors.size(), 8U);  // (200 - 68) / 16
  EXPECT_LE(units[1].size(), 200U);
  EXPECT_EQ(table.size(), 21U * 16);
  Request immediate = one;
  immediate.id = 3;
  immediate.direction = Request::Direction::Out;
  const Octets data(100, std::byte{7});
  immediate.immediate = data;
  submit(immediate);
  EXPECT_EQ(command(2).data_out.format, wire::SrpBufferFormat::Immediate);
  EXPECT_EQ(command(2).immediate_data.size(), 100U);
  for (std::size_t i = 0; i < 3; ++i) {
    respond(command(i).header.tag);
  }
  EXPECT_EQ(unmapped, mapped);
}

TEST_F(SrpSession, MapsAsTheDeviceCan) {  // R-SRPI-6
  EXPECT_EQ(choose_mapping({.fast_registration = true, .global_key = true}, 1),
            MappingKind::GlobalKey);
  EXPECT_EQ(choose_mapping({.fast_registration = true, .global_key = true}, 2),
            MappingKind::FastRegistration);
  EXPECT_EQ(choose_mapping({.fast_registration = true}, 1), MappingKind::FastRegistration);
  EXPECT_EQ(choose_mapping({.global_key = true}, 9), MappingKind::GlobalKey);
  EXPECT_FALSE(choose_mapping({}, 1).has_value());
}

TEST_F(SrpSession, AnAbortThatFailsLeadsToAResetAndThenToANewLogin) {  // R-SRPI-5
  log_in(8);
  submit(ping(1));
  EXPECT_TRUE(session.abort(1, now).has_value());
  pass(Duration::seconds(5));
  ASSERT_EQ(units.size(), 3U);
  EXPECT_EQ(wire::parse<wire::SrpTskMgmt>(units[2])->function,
            wire::SrpTaskFunction::LogicalUnitReset);
  EXPECT_TRUE(outcomes.empty());
  respond(wire::parse<wire::SrpTskMgmt>(units[2])->tag, 1, wire::SrpResponseCode::Failed);
  EXPECT_EQ(session.state(), PathState::Blocked);
  EXPECT_EQ(outcomes.at(1).kind, Outcome::Kind::Interrupted);
  pass(Duration::seconds(10));
  ASSERT_EQ(logins.size(), 2U);
  log_in();
  EXPECT_EQ(session.state(), PathState::Live);
}

TEST_F(SrpSession, ALostChannelIsMadeAgainOrRequestsFail) {
  log_in();
  submit(ping(1));
  session.handle_lost(now);
  EXPECT_EQ(outcomes.at(1).kind, Outcome::Kind::Interrupted);
  EXPECT_EQ(disconnects, 1);
  submit(ping(2));  // waits
  EXPECT_EQ(session.queued(), 1U);
  pass(Duration::seconds(15));  // no login succeeded
  EXPECT_EQ(session.state(), PathState::FailFast);
  EXPECT_EQ(outcomes.at(2).kind, Outcome::Kind::PathFailed);
  EXPECT_FALSE(session.submit(ping(3), now).has_value());
  pass(Duration::seconds(45));
  EXPECT_EQ(session.state(), PathState::Lost);
  EXPECT_GT(logins.size(), 3U);
  EXPECT_EQ(session.deadline(), Instant::never());
}

TEST_F(SrpSession, WhatWaitedGoesOnAfterTheNextLogin) {
  log_in();
  session.handle_lost(now);
  submit(ping(2));
  pass(Duration::seconds(10));
  log_in();
  ASSERT_EQ(units.size(), 1U);
  respond(command(0).header.tag);
  EXPECT_TRUE(outcomes.at(2).is_good());
}

TEST_F(SrpSession, ARejectionTellsItsReason) {  // part of R-SRPI-8a
  session.start(now);
  session.handle_rejected(
      wire::pack(wire::SrpLoginRej{.reason = wire::SrpLoginRejReason::ChannelLimitReached}), now);
  EXPECT_EQ(session.state(), PathState::Idle);
  EXPECT_EQ(session.last_rejection(), wire::SrpLoginRejReason::ChannelLimitReached);
}

TEST_F(SrpSession, AStaleConnectionIsTriedAgainAfterAWhile) {  // part of R-SRPI-8a
  session.start(now);
  submit(ping(1));
  session.handle_stale(now);
  EXPECT_EQ(session.state(), PathState::Connecting);
  EXPECT_EQ(logins.size(), 1U) << "not at once: the target's time-wait has to pass";
  session.handle_stale(now);  // of no login
  pass(Duration::seconds(10));
  ASSERT_EQ(logins.size(), 2U);
  log_in();
  EXPECT_EQ(session.state(), PathState::Live);
  EXPECT_EQ(units.size(), 1U);

  session.handle_lost(now);
  pass(Duration::seconds(10));
  ASSERT_EQ(logins.size(), 3U);
  session.handle_stale(now);
  EXPECT_EQ(session.state(), PathState::Blocked);
  pass(Duration::seconds(10));
  EXPECT_EQ(logins.size(), 4U);
}

TEST_F(SrpSession, AConnectionThatStaysStaleFailsTheFirstLogin) {
  session.start(now);
  for (std::size_t login = 1; login <= 4; ++login) {
    ASSERT_EQ(logins.size(), login);
    EXPECT_EQ(session.state(), PathState::Connecting);
    session.handle_stale(now);
    pass(Duration::seconds(10));
  }
  EXPECT_EQ(session.state(), PathState::Idle);
  EXPECT_EQ(logins.size(), 4U);
}

TEST_F(SrpSession, ATargetThatLiesLosesItsChannel) {
  const std::vector<Octets> lies{
      {},
      {std::byte{0x99}},
      Octets(10, std::byte{0xC1}),                     // cut off
      wire::to_unit(wire::SrpRsp{.tag = 12345}),       // of nothing
      wire::to_unit(wire::SrpRsp{.tag = 1ULL << 63}),  // of no task management
      wire::to_unit(wire::SrpLoginRsp{}),
      wire::to_unit(wire::SrpILogout{}),
  };
  for (const Octets& lie : lies) {
    now = now + Duration::seconds(10);
    session.handle_timeout(now);
    log_in();
    const auto before = session.violations();
    session.handle_receive(lie, now);
    EXPECT_EQ(session.violations(), before + 1) << lie.size();
    EXPECT_EQ(session.state(), PathState::Blocked);
  }
}

TEST_F(SrpSession, StopLogsOutAndEndsEverything) {
  log_in(2);
  submit(ping(1));
  submit(ping(2));
  session.stop(now);
  EXPECT_EQ(*wire::srp_opcode(units.back()), wire::SrpOpcode::ILogout);
  EXPECT_EQ(outcomes.at(1).kind, Outcome::Kind::Interrupted);
  EXPECT_EQ(outcomes.at(2).kind, Outcome::Kind::PathFailed);
  EXPECT_EQ(session.state(), PathState::Lost);
}

}  // namespace
}  // namespace weft::srp
