#include "sa/sa_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "mad/testing/network.h"
#include "wire/mad/component_mask.h"

namespace weft::sa {
namespace {

using wire::kComponent;
using wire::MadMethod;
using wire::McMemberRecord;
using wire::PathRecord;

constexpr std::size_t kHeaderBytes = wire::kSizeOf<wire::SaHeader>;
constexpr Lid kOwnLid{1};
constexpr Lid kSaLid{2};
const Gid kOwn{kDefaultGidPrefix, Guid{0x11}};
const Gid kOther{kDefaultGidPrefix, Guid{0x22}};
const Gid kGroup{0xFF12'401B'FFFF'0000, Guid{5}};

[[nodiscard]] LocalPort active_port() {
  LocalPort port;
  port.lid = kOwnLid;
  port.state = verbs::PortState::Active;
  port.sm_lid = kSaLid;
  port.gids = {kOwn};
  port.pkeys = {kDefaultPKey};
  return port;
}

/// A client, and a test-specific function that serves the class at the SM's address.
class SaClientTest : public ::testing::Test {
 protected:
  using Answerer = std::function<const mad::MadMessage*(mad::MadRequest&)>;

  explicit SaClientTest(const mad::NetworkFaults& faults = {}) : network(1, faults) {
    network.attach(kOwnLid, own_gsi);
    network.attach(kSaLid, sa_gsi);
    EXPECT_TRUE(sa_gsi.register_agent(
        mad::registration_of(
            wire::ManagementClass::SubnAdm,
            {MadMethod::Get, MadMethod::Set, MadMethod::Delete, MadMethod::GetTable}),
        &server));
    client.set_port(active_port(), network.now);
  }

  /// Steps of a millisecond: the interface first, then the client.
  void run_for(Duration span) {
    const Instant end = network.now + span;
    while (network.now < end) {
      network.run(std::min(network.now + Duration::milliseconds(1), end));
      client.handle_timeout(network.now);
    }
  }

  template <wire::WireType T>
  static T record_in(const mad::MadRequest& request) {
    return *wire::parse<T>(ByteSpan{request.message.mad}.subspan(kHeaderBytes));
  }
  template <wire::WireType T>
  static const mad::MadMessage* answer_with(mad::MadRequest& request, const T& record) {
    copy_bytes(std::span{request.message.mad}.subspan(kHeaderBytes), wire::pack(record));
    return &request.message;
  }
  static const mad::MadMessage* refuse(mad::MadRequest& request, wire::SaStatus status) {
    request.message.set_status(static_cast<std::uint16_t>(status));
    return &request.message;
  }
  /// Answers with the requested path.
  static const mad::MadMessage* tell_path(mad::MadRequest& request) {
    auto path = record_in<PathRecord>(request);
    path.dlid = Lid{7};
    path.slid = kOwnLid;
    return answer_with(request, path);
  }
  static const mad::MadMessage* take_member(mad::MadRequest& request) {
    auto member = record_in<McMemberRecord>(request);
    member.mlid = Lid{0xC001};
    return answer_with(request, member);
  }

  PathHandler into(std::vector<Answer<PathRecord>>& reported) {
    return
        [&reported](QueryId, const Answer<PathRecord>& path, Instant) { reported.push_back(path); };
  }
  MembershipHandler into(std::vector<Answer<McMemberRecord>>& reported) {
    return [&reported](MembershipId, const Answer<McMemberRecord>& member, Instant) {
      reported.push_back(member);
    };
  }
  QueryId resolve(const PathQuery& wanted, PathHandler handler, const QueryOptions& options = {}) {
    const auto id = client.resolve_path(wanted, options, std::move(handler), network.now);
    EXPECT_TRUE(id.has_value()) << id.error().reason;
    return id.value_or(QueryId{});
  }

  Answerer answerer = tell_path;
  mad::TestAgent server{[this](mad::MadRequest& request) { return answerer(request); }};
  mad::ManagementInterface own_gsi{mad::InterfaceKind::Gsi};
  mad::ManagementInterface sa_gsi{mad::InterfaceKind::Gsi};
  mad::TestNetwork network;
  SaClient client{own_gsi};
  PathQuery path_query{.sgid = kOwn, .dgid = kOther};
};

TEST_F(SaClientTest, TellsThePathThatSaTells) {  // R-SA-1, T-SA-1
  std::vector<Answer<PathRecord>> reported;
  resolve(path_query, into(reported));
  EXPECT_THAT(reported, ::testing::IsEmpty());  // never from inside a call
  run_for(Duration::milliseconds(5));
  ASSERT_EQ(reported.size(), 1U);
  ASSERT_TRUE(reported[0].has_value()) << reported[0].error().reason;
  EXPECT_EQ(reported[0]->dlid, Lid{7});
  EXPECT_EQ(reported[0]->dgid, kOther);
}

TEST_F(SaClientTest, AsksForThePathOnceAndForUsersAtTheSameTimeOnce) {
  std::vector<Answer<PathRecord>> reported;
  resolve(path_query, into(reported));
  resolve(path_query, into(reported));
  run_for(Duration::milliseconds(5));
  resolve(path_query, into(reported));
  EXPECT_EQ(reported.size(), 2U);
  EXPECT_EQ(client.deadline(), Instant{});
  client.handle_timeout(network.now);
  EXPECT_EQ(reported.size(), 3U);
  EXPECT_EQ(server.requests, 1);
  EXPECT_EQ(client.counters().coalesced, 1U);
  EXPECT_EQ(client.counters().cached, 1U);
}

TEST_F(SaClientTest, ForgetsPathsWhenTheSubnetManagerAsksClientsToRegisterAgain) {  // R-SA-5
  std::vector<Answer<PathRecord>> reported;
  for (int round = 0; round < 2; ++round) {
    resolve(path_query, into(reported));
    run_for(Duration::milliseconds(5));
    LocalPort port = client.port();
    ++port.reregistrations;
    client.set_port(port, network.now);
  }
  EXPECT_EQ(reported.size(), 2U);
  EXPECT_EQ(server.requests, 2);
}

TEST_F(SaClientTest, AsksAgainForAPathThatIsOld) {
  std::vector<Answer<PathRecord>> reported;
  resolve(path_query, into(reported));
  run_for(Duration::milliseconds(5));
  network.now = network.now + SaClientLimits{}.path_age;
  resolve(path_query, into(reported));
  run_for(Duration::milliseconds(5));
  EXPECT_EQ(server.requests, 2);
}

TEST_F(SaClientTest, GivesUpAfterItsTimeAndNoMoreThanItsTries) {  // R-SA-4, T-SA-2
  answerer = [](mad::MadRequest&) { return nullptr; };
  std::vector<std::pair<QueryFailure, Instant>> reported;
  const Instant start = network.now;
  resolve(path_query,
          [&](QueryId, const Answer<PathRecord>& path, Instant at) {
            reported.emplace_back(path.error().failure, at);
          },
          {.timeout = Duration::seconds(2)});
  run_for(Duration::seconds(4));
  ASSERT_EQ(reported.size(), 1U);
  EXPECT_EQ(reported[0].first, QueryFailure::TimedOut);
  EXPECT_GE(reported[0].second - start, Duration::milliseconds(1'700));
  EXPECT_LE(reported[0].second - start, Duration::milliseconds(2'300));
  EXPECT_LE(server.requests, 11);
  EXPECT_GE(server.requests, 5);
  EXPECT_EQ(client.queries(), 0U);
}

TEST_F(SaClientTest, AsksOnForUsersThatHaveTimeWhenTheFirstHasNone) {
  bool is_silent = true;
  answerer = [&](mad::MadRequest& request) { return is_silent ? nullptr : tell_path(request); };
  std::vector<Answer<PathRecord>> first;
  std::vector<Answer<PathRecord>> second;
  resolve(path_query, into(first), {.timeout = Duration::milliseconds(100)});
  resolve(path_query, into(second), {.timeout = Duration::seconds(10)});
  run_for(Duration::milliseconds(300));
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].error().failure, QueryFailure::TimedOut);
  EXPECT_THAT(second, ::testing::IsEmpty());
  is_silent = false;
  run_for(Duration::seconds(2));
  ASSERT_EQ(second.size(), 1U);
  EXPECT_TRUE(second[0].has_value());
}

TEST_F(SaClientTest, CallsEachHandlerOnceWhenCancelled) {  // R-SA-3, T-SA-3
  std::vector<Answer<PathRecord>> reported;
  const QueryId at_once = resolve(path_query, into(reported));
  client.cancel(at_once, network.now);
  client.cancel(at_once, network.now);
  run_for(Duration::milliseconds(5));
  ASSERT_EQ(reported.size(), 1U);
  EXPECT_EQ(reported[0].error().failure, QueryFailure::Cancelled);
  const QueryId answered = resolve(path_query, into(reported));
  run_for(Duration::milliseconds(5));
  client.cancel(answered, network.now);
  client.cancel(QueryId{12'345}, network.now);
  run_for(Duration::milliseconds(5));
  ASSERT_EQ(reported.size(), 2U);
  EXPECT_TRUE(reported[1].has_value());
}

TEST_F(SaClientTest, CancellingOneUserOfAPathLeavesItToTheOthers) {
  std::vector<Answer<PathRecord>> first;
  std::vector<Answer<PathRecord>> second;
  const QueryId id = resolve(path_query, into(first));
  resolve(path_query, into(second));
  client.cancel(id, network.now);
  run_for(Duration::milliseconds(5));
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].error().failure, QueryFailure::Cancelled);
  ASSERT_EQ(second.size(), 1U);
  EXPECT_TRUE(second[0].has_value());
}

TEST_F(SaClientTest, APathAskedForAgainRightAfterTheLastUserLeftIsTold) {
  std::vector<Answer<PathRecord>> first;
  std::vector<Answer<PathRecord>> second;
  client.cancel(resolve(path_query, into(first)), network.now);
  resolve(path_query, into(second));
  run_for(Duration::milliseconds(5));
  ASSERT_EQ(second.size(), 1U);
  EXPECT_TRUE(second[0].has_value());
}

TEST_F(SaClientTest, EndsQueriesWhenThePortGoesDown) {  // T-SA-4
  answerer = [](mad::MadRequest&) { return nullptr; };
  std::vector<Answer<PathRecord>> reported;
  resolve(path_query, into(reported));
  run_for(Duration::milliseconds(5));
  LocalPort down = client.port();
  down.state = verbs::PortState::Down;
  client.set_port(down, network.now);
  run_for(Duration::milliseconds(5));
  ASSERT_EQ(reported.size(), 1U);
  EXPECT_EQ(reported[0].error().failure, QueryFailure::NotSent);
  const auto refused = client.resolve_path(path_query, {}, into(reported), network.now);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::TryAgain);  // R-SA-4
}

TEST_F(SaClientTest, AsksTheNewSubnetManagerWhatTheOldOneHasNotAnswered) {  // R-SA-5
  LocalPort elsewhere = client.port();
  elsewhere.sm_lid = Lid{99};  // no such port
  client.set_port(elsewhere, network.now);
  std::vector<Answer<PathRecord>> reported;
  resolve(path_query, into(reported));
  run_for(Duration::milliseconds(5));
  EXPECT_THAT(reported, ::testing::IsEmpty());
  client.set_port(active_port(), network.now);
  run_for(Duration::milliseconds(5));
  ASSERT_EQ(reported.size(), 1U);
  EXPECT_TRUE(reported[0].has_value());
}

TEST(LocalPort, SpeaksToSaByTheDefaultPartition) {
  LocalPort port;
  EXPECT_EQ(port.management_pkey(), kDefaultPKey);
  port.pkeys = {PKey{0x8001}};
  EXPECT_EQ(port.management_pkey(), PKey{0x8001});
  port.pkeys = {PKey{0x8001}, PKey{0x7FFF}};
  EXPECT_EQ(port.management_pkey(), PKey{0x7FFF});
}

TEST_F(SaClientTest, SaysWithWhichStatusSaRefused) {
  answerer = [](mad::MadRequest& request) { return refuse(request, wire::SaStatus::NoRecords); };
  std::vector<Answer<PathRecord>> reported;
  resolve(path_query, into(reported));
  run_for(Duration::milliseconds(5));
  ASSERT_EQ(reported.size(), 1U);
  EXPECT_EQ(reported[0].error().failure, QueryFailure::NoPath);
  EXPECT_TRUE(reported[0].error().is_no_records());
}

TEST_F(SaClientTest, TellsNoPathAndNoGroupByErrorsOfTheirOwn) {  // T-MI-3, R-MI-4
  answerer = [](mad::MadRequest& request) { return refuse(request, wire::SaStatus::NoRecords); };
  std::vector<Answer<PathRecord>> paths;
  std::vector<Answer<McMemberRecord>> memberships;
  resolve(path_query, into(paths));
  ASSERT_TRUE(client.join({.mgid = kGroup, .join_state = wire::JoinState::FullMember}, 0,
                          into(memberships), network.now));
  run_for(Duration::milliseconds(5));
  ASSERT_EQ(paths.size(), 1U);
  ASSERT_EQ(memberships.size(), 1U);
  const QueryError& path = paths[0].error();
  const QueryError& membership = memberships[0].error();
  EXPECT_EQ(path.status, 0x0300);
  EXPECT_EQ(membership.status, 0x0300);
  EXPECT_EQ(path.failure, QueryFailure::NoPath);
  EXPECT_EQ(membership.failure, QueryFailure::NoGroup);
  EXPECT_THAT(path.reason, ::testing::HasSubstr("no path"));
  EXPECT_THAT(membership.reason, ::testing::HasSubstr("multicast group"));
  EXPECT_NE(path.reason, membership.reason);
}

TEST_F(SaClientTest, DoesNotBelieveAPathToSomewhereElse) {
  answerer = [](mad::MadRequest& request) {
    auto path = record_in<PathRecord>(request);
    path.dgid = kOwn;
    return answer_with(request, path);
  };
  std::vector<Answer<PathRecord>> reported;
  resolve(path_query, into(reported));
  run_for(Duration::milliseconds(5));
  ASSERT_EQ(reported.size(), 1U);
  EXPECT_EQ(reported[0].error().failure, QueryFailure::BadAnswer);
}

TEST_F(SaClientTest, ReadsAllRecordsOfATable) {
  answerer = [answer = mad::MadMessage{}](mad::MadRequest& request) mutable {
    answer = request.message;
    answer.is_rmpp = true;
    answer.data.clear();
    auto header = wire::unpack<wire::SaHeader>(std::span{answer.mad}.first<kHeaderBytes>());
    header.attribute_offset = wire::sa_attribute_offset(wire::kSizeOf<PathRecord>);
    wire::pack(header, std::span{answer.mad}.first<kHeaderBytes>());
    for (std::uint32_t i = 0; i < 50; ++i) {
      const auto packed = wire::pack(PathRecord{.dgid = kOther, .dlid = Lid{i + 1}});
      answer.data.insert(answer.data.end(), packed.begin(), packed.end());
    }
    return &answer;
  };
  std::optional<Answer<std::vector<PathRecord>>> reported;
  ASSERT_TRUE(client.get_paths(
      SaClient::Kind::GetTable, {.dgid = kOther}, kComponent<PathRecord, "DGID">, {},
      [&](QueryId, const Answer<std::vector<PathRecord>>& paths, Instant) { reported = paths; },
      network.now));
  run_for(Duration::milliseconds(100));
  ASSERT_TRUE(reported && reported->has_value());
  ASSERT_EQ((*reported)->size(), 50U);
  EXPECT_EQ((*reported)->back().dlid, Lid{50});
}

TEST_F(SaClientTest, RefusesAServiceQueryOfAnotherMethod) {  // R-SA-2
  const auto refused = client.query_service(MadMethod::GetTable, {}, 0, {}, {}, network.now);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::InvalidArgument);
}

TEST_F(SaClientTest, JoinsAGroupOnceForAllItsUsersAndLeavesWithTheLast) {  // R-SA-10
  std::vector<MadMethod> methods;
  answerer = [&](mad::MadRequest& request) {
    methods.push_back(request.message.header().method);
    return take_member(request);
  };
  std::vector<Answer<McMemberRecord>> reported;
  const McMemberRecord wanted{.mgid = kGroup, .join_state = wire::JoinState::FullMember};
  const auto first = client.join(wanted, 0, into(reported), network.now);
  run_for(Duration::milliseconds(5));
  const auto second = client.join(wanted, 0, into(reported), network.now);
  run_for(Duration::milliseconds(5));
  ASSERT_EQ(reported.size(), 2U);
  EXPECT_EQ(reported[0]->mlid, Lid{0xC001});
  EXPECT_EQ(reported[0]->port_gid, kOwn);
  client.leave(*first, network.now);
  run_for(Duration::milliseconds(5));
  EXPECT_EQ(methods, (std::vector{MadMethod::Set}));
  client.leave(*second, network.now);
  run_for(Duration::milliseconds(5));
  EXPECT_EQ(methods, (std::vector{MadMethod::Set, MadMethod::Delete}));
  EXPECT_EQ(client.memberships(), 0U);
}

TEST_F(SaClientTest, JoinsAgainWhenAskedToAndTellsWhatHasChanged) {  // R-SA-5, R-SA-10
  std::uint32_t mlid = 0xC001;
  answerer = [&](mad::MadRequest& request) {
    auto member = record_in<McMemberRecord>(request);
    member.mlid = Lid{mlid};
    return answer_with(request, member);
  };
  std::vector<Answer<McMemberRecord>> reported;
  ASSERT_TRUE(client.join({.mgid = kGroup, .join_state = wire::JoinState::SendOnlyNonMember}, 0,
                          into(reported), network.now));
  const auto register_again = [&] {
    LocalPort port = client.port();
    ++port.reregistrations;
    client.set_port(port, network.now);
    run_for(Duration::milliseconds(5));
  };
  run_for(Duration::milliseconds(5));
  register_again();
  EXPECT_EQ(server.requests, 2);
  EXPECT_EQ(reported.size(), 1U);  // nothing new
  mlid = 0xC007;
  register_again();
  ASSERT_EQ(reported.size(), 2U);
  EXPECT_EQ(reported[1]->mlid, Lid{0xC007});
  answerer = [](mad::MadRequest& request) {
    return refuse(request, wire::SaStatus::RequestInvalid);
  };
  register_again();
  ASSERT_EQ(reported.size(), 3U);
  EXPECT_EQ(reported[2].error().failure, QueryFailure::Refused);
  EXPECT_EQ(client.memberships(), 0U);
}

TEST_F(SaClientTest, AJoinWaitsForThePortAndForWhoAnswers) {
  answerer = [](mad::MadRequest&) { return nullptr; };
  LocalPort down = active_port();
  down.state = verbs::PortState::Down;
  client.set_port(down, network.now);
  std::vector<Answer<McMemberRecord>> reported;
  ASSERT_TRUE(client.join({.mgid = kGroup, .join_state = wire::JoinState::FullMember}, 0,
                          into(reported), network.now));
  run_for(Duration::milliseconds(5));
  EXPECT_EQ(server.requests, 0);
  EXPECT_EQ(client.deadline(), Instant::never());
  client.set_port(active_port(), network.now);
  run_for(Duration::seconds(6));
  EXPECT_GT(server.requests, 0);
  EXPECT_THAT(reported, ::testing::IsEmpty());
  answerer = take_member;
  run_for(Duration::seconds(6));
  ASSERT_EQ(reported.size(), 1U);
  EXPECT_TRUE(reported[0].has_value());
}

TEST_F(SaClientTest, HandsOverReportsOfSaAndOfNobodyElse) {
  answerer = [](mad::MadRequest& request) {
    return answer_with(request, record_in<wire::InformInfo>(request));
  };
  std::vector<std::uint16_t> traps;
  wire::InformInfo wanted{.lid_range_begin = kPermissiveLid, .is_generic = 1, .type = 0xFFFF};
  wanted.trap_number = static_cast<std::uint16_t>(wire::Trap::GidInService);
  const auto id = client.subscribe(
      wanted,
      [&](SubscriptionId, const wire::SaNotice& notice, Instant) {
        traps.push_back(notice.notice.trap_number);
      },
      network.now);
  ASSERT_TRUE(id.has_value());
  run_for(Duration::milliseconds(5));
  EXPECT_EQ(server.requests, 1);
  mad::Listener answers;
  const auto report_from = [&](mad::ManagementInterface& gsi, std::uint16_t trap) {
    const auto agent =
        gsi.register_agent(mad::registration_of(wire::ManagementClass::SubnAdm, {}), nullptr);
    auto report = mad::request_of(wire::ManagementClass::SubnAdm, MadMethod::Report, 2);
    const wire::SaNotice notice{.notice = {.trap_number = trap}};
    copy_bytes(std::span{report.mad}.subspan(kHeaderBytes), wire::pack(notice));
    ASSERT_TRUE(gsi.send(*agent, {.lid = kOwnLid}, report,
                         {.timeout = Duration::milliseconds(50), .retries = 0}, answers.handler(),
                         network.now));
    run_for(Duration::milliseconds(100));
  };
  report_from(sa_gsi, 64);
  report_from(sa_gsi, 65);  // without subscription
  mad::ManagementInterface liar{mad::InterfaceKind::Gsi};
  network.attach(Lid{3}, liar);
  report_from(liar, 64);
  EXPECT_EQ(traps, std::vector<std::uint16_t>{64});
  ASSERT_EQ(answers.reported.size(), 3U);
  EXPECT_EQ(answers.reported[0].status, mad::TransactionStatus::Answered);
  EXPECT_EQ(answers.reported[1].status, mad::TransactionStatus::Answered);
  EXPECT_EQ(answers.reported[2].status, mad::TransactionStatus::TimedOut);
  client.unsubscribe(*id, network.now);
  report_from(sa_gsi, 64);
  EXPECT_EQ(traps.size(), 1U);
  EXPECT_EQ(server.requests, 2);
  network.attach(Lid{3}, sa_gsi);  // the forger is removed
}

class LossySaClientTest : public SaClientTest {
 protected:
  LossySaClientTest() : SaClientTest({.loss = 10, .duplication = 5}) {}
};

TEST_F(LossySaClientTest, AnswersEveryQueryOnceOverALossyNetwork) {
  std::vector<Answer<PathRecord>> reported;
  for (std::uint64_t i = 0; i < 300; ++i) {
    resolve(
        {
            .sgid = kOwn, .dgid = Gid{kDefaultGidPrefix, Guid{100 + i}}
    },
        into(reported));
  }
  run_for(Duration::seconds(5));
  EXPECT_EQ(reported.size(), 300U);
  for (const Answer<PathRecord>& path : reported) {
    EXPECT_TRUE(path.has_value());
  }
}

TEST_F(SaClientTest, RefusesMoreThanItsLimits) {
  answerer = [](mad::MadRequest&) { return nullptr; };
  SaClient small{
      own_gsi, {.queries = 2, .memberships = 1, .subscriptions = 1}
  };
  small.set_port(active_port(), network.now);
  const auto path = [&](std::uint64_t guid) {
    return small.resolve_path(
        {
            .dgid = Gid{kDefaultGidPrefix, Guid{guid}}
    },
        {}, {}, network.now);
  };
  EXPECT_TRUE(path(1).has_value());  // the query, and its user
  EXPECT_EQ(path(2).error().code, ErrorCode::OutOfMemory);
  const McMemberRecord wanted{.mgid = kGroup, .join_state = wire::JoinState::FullMember};
  EXPECT_TRUE(small.join(wanted, 0, {}, network.now).has_value());
  EXPECT_EQ(small.join(wanted, 0, {}, network.now).error().code, ErrorCode::OutOfMemory);
  EXPECT_TRUE(small.subscribe({}, {}, network.now).has_value());
  EXPECT_EQ(small.subscribe({}, {}, network.now).error().code, ErrorCode::OutOfMemory);
}

}  // namespace
}  // namespace weft::sa
