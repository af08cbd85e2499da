// SaClient follows SA's notices of GIDs that come and go.

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "mad/testing/network.h"
#include "sa/sa_client.h"
#include "wire/mad/notice_details.h"

namespace weft::sa {
namespace {

using wire::MadMethod;
using wire::PathRecord;

constexpr std::size_t kHeaderBytes = wire::kSizeOf<wire::SaHeader>;
constexpr Lid kOwnLid{1};
constexpr Lid kSaLid{2};
const Gid kOwn{kDefaultGidPrefix, Guid{0x11}};
const Gid kOther{kDefaultGidPrefix, Guid{0x22}};
const Gid kThird{kDefaultGidPrefix, Guid{0x33}};

/// A client, and an SA that tells paths, takes subscriptions, and reports what comes and goes.
class GidWatchTest : public ::testing::Test {
 protected:
  GidWatchTest() {
    network.attach(kOwnLid, own_gsi);
    network.attach(kSaLid, sa_gsi);
    EXPECT_TRUE(sa_gsi.register_agent(
        mad::registration_of(wire::ManagementClass::SubnAdm, {MadMethod::Get, MadMethod::Set}),
        &server));
    reporter =
        *sa_gsi.register_agent(mad::registration_of(wire::ManagementClass::SubnAdm, {}), nullptr);
    client.set_port(own_port(), network.now);
  }

  [[nodiscard]] static LocalPort own_port() {
    LocalPort port;
    port.lid = kOwnLid;
    port.state = verbs::PortState::Active;
    port.sm_lid = kSaLid;
    port.gids = {kOwn};
    port.pkeys = {kDefaultPKey};
    return port;
  }

  void run_for(Duration span) {
    const Instant end = network.now + span;
    while (network.now < end) {
      network.run(std::min(network.now + Duration::milliseconds(1), end));
      client.handle_timeout(network.now);
    }
  }

  const mad::MadMessage* serve(mad::MadRequest& request) {
    const auto record = std::span{request.message.mad}.subspan(kHeaderBytes);
    if (request.message.header().attribute_id ==
        static_cast<std::uint16_t>(wire::SaAttribute::InformInfo)) {
      subscribed.push_back(*wire::parse<wire::InformInfo>(record));
      return &request.message;
    }
    ++paths_told;
    auto path = *wire::parse<PathRecord>(record);
    path.dlid = Lid{7};
    copy_bytes(record, wire::pack(path));
    return &request.message;
  }

  void report(wire::Trap trap, const Gid& gid) {
    auto message = mad::request_of(wire::ManagementClass::SubnAdm, MadMethod::Report, 2);
    wire::SaNotice notice{.notice = {.trap_number = static_cast<std::uint16_t>(trap)}};
    notice.notice.details = wire::pack(wire::GidNoticeDetails{.gid = gid});
    copy_bytes(std::span{message.mad}.subspan(kHeaderBytes), wire::pack(notice));
    ASSERT_TRUE(sa_gsi.send(reporter, {.lid = kOwnLid}, message,
                            {.timeout = Duration::milliseconds(50), .retries = 0},
                            answers.handler(), network.now));
    run_for(Duration::milliseconds(10));
  }

  /// How many paths SA told for it.
  int resolve_both() {
    const int before = paths_told;
    int ended = 0;
    for (const Gid& dgid : {kOther, kThird}) {
      EXPECT_TRUE(client.resolve_path(
          {.sgid = kOwn, .dgid = dgid}, {},
          [&](QueryId, const Answer<PathRecord>& path, Instant) { ended += path ? 1 : 0; },
          network.now));
    }
    run_for(Duration::milliseconds(10));
    EXPECT_EQ(ended, 2);
    return paths_told - before;
  }

  mad::TestNetwork network;
  mad::ManagementInterface own_gsi{mad::InterfaceKind::Gsi};
  mad::ManagementInterface sa_gsi{mad::InterfaceKind::Gsi};
  mad::TestAgent server{[this](mad::MadRequest& request) { return serve(request); }};
  mad::AgentId reporter{};
  mad::Listener answers;
  SaClient client{own_gsi};
  std::vector<wire::InformInfo> subscribed;
  int paths_told{};
};

TEST_F(GidWatchTest, ForgetsPathsToGidsThatComeAndGo) {  // R-NL-8
  std::vector<std::pair<Gid, bool>> heard;
  client.watch_gids(
      [&](const Gid& gid, bool is_in_service, Instant) { heard.emplace_back(gid, is_in_service); });
  run_for(Duration::seconds(1));
  EXPECT_TRUE(subscribed.empty());  // there is nothing to forget
  EXPECT_EQ(resolve_both(), 2);
  EXPECT_EQ(resolve_both(), 0);
  std::vector<std::uint16_t> traps;
  for (const wire::InformInfo& info : subscribed) {
    EXPECT_EQ(info.subscribe, 1);
    EXPECT_EQ(info.lid_range_begin, kPermissiveLid);
    traps.push_back(info.trap_number);
  }
  EXPECT_EQ(traps, (std::vector<std::uint16_t>{64, 65}));
  report(wire::Trap::GidOutOfService, kOther);
  EXPECT_EQ(resolve_both(), 1);
  report(wire::Trap::GidInService, kThird);
  EXPECT_EQ(resolve_both(), 1);
  EXPECT_EQ(heard, (std::vector<std::pair<Gid, bool>>{
                       {kOther, false},
                       {kThird, true }
  }));
  EXPECT_EQ(client.counters().gids, 2U);
  EXPECT_EQ(answers.reported.size(), 2U);
  for (const auto& answer : answers.reported) {
    EXPECT_EQ(answer.status, mad::TransactionStatus::Answered);
  }
}

TEST_F(GidWatchTest, SubscribesAnewAtAnotherSubnetManager) {
  client.watch_gids();
  EXPECT_EQ(resolve_both(), 2);
  EXPECT_EQ(subscribed.size(), 2U);
  LocalPort port = own_port();
  port.reregistrations = 1;
  client.set_port(port, network.now);
  run_for(Duration::milliseconds(10));
  EXPECT_EQ(subscribed.size(), 4U);
}

/// Part of R-NL-8: SA knows subscriptions by the port, so that a program's end is all agents'.
TEST_F(GidWatchTest, OutlivesTheSubscriptionThatAProgramTakesBack) {
  client.watch_gids();
  EXPECT_EQ(resolve_both(), 2);
  ASSERT_EQ(subscribed.size(), 2U);
  const auto program =
      own_gsi.register_agent(mad::registration_of(wire::ManagementClass::SubnAdm, {}), nullptr);
  ASSERT_TRUE(program);
  mad::Listener told;
  const auto set = [&](std::uint16_t trap, std::uint8_t subscribe) {
    auto message = mad::request_of(wire::ManagementClass::SubnAdm, MadMethod::Set,
                                   static_cast<std::uint16_t>(wire::SaAttribute::InformInfo));
    wire::InformInfo info = subscribed.front();
    info.trap_number = trap;
    info.subscribe = subscribe;
    copy_bytes(std::span{message.mad}.subspan(kHeaderBytes), wire::pack(info));
    ASSERT_TRUE(own_gsi.send(*program, {.lid = kSaLid}, message,
                             {.timeout = Duration::milliseconds(50), .retries = 0}, told.handler(),
                             network.now));
    run_for(Duration::milliseconds(10));
  };
  set(65, 1);
  set(66, 0);
  EXPECT_EQ(subscribed.size(), 4U) << "neither ends one of the client's";
  EXPECT_EQ(resolve_both(), 0);
  set(65, 0);
  ASSERT_EQ(subscribed.size(), 6U);
  EXPECT_EQ(subscribed.back().subscribe, 1);
  EXPECT_EQ(subscribed.back().trap_number, 65);
  EXPECT_EQ(resolve_both(), 2) << "what was said meanwhile it has not heard";
  run_for(Duration::seconds(20));
  EXPECT_EQ(subscribed.size(), 6U) << "once";
  EXPECT_EQ(told.reported.size(), 3U);
}

TEST_F(GidWatchTest, ProgramsOfTheHostHearReportsAsWell) {
  client.watch_gids();
  mad::TestAgent program{[](mad::MadRequest& request) { return &request.message; }};
  EXPECT_EQ(resolve_both(), 2);
  const auto agent = own_gsi.register_agent(
      mad::registration_of(wire::ManagementClass::SubnAdm, {MadMethod::Report}), &program);
  ASSERT_TRUE(agent);
  report(wire::Trap::GidOutOfService, kOther);
  EXPECT_EQ(program.requests, 1);
  EXPECT_EQ(resolve_both(), 1);
  EXPECT_EQ(answers.reported.size(), 1U);  // one answer for both
}

}  // namespace
}  // namespace weft::sa
