// Loading an alternate path and going to it (LAP, APR: IBTA vol 1 §12.8; T-CM-8).

#include <gtest/gtest.h>

#include "cm/testing/network.h"

namespace weft::cm {
namespace {

using wire::AprStatus;
using wire::CmAttribute;

/// A connection, and another path that it could take.
struct Fixture {
  TestCmNetwork net;
  Connected ids{connect(net)};
  Path alternate{TestCmNetwork::alternate(net.a(), net.b())};

  void load() {
    ASSERT_TRUE(net.a().cm.send_lap(ids.a, alternate, {}, net.now).has_value());
    net.run_shortly();
  }
};

TEST(AlternatePath, IsLoadedIntoBothQpsBySuccess) {  // T-CM-8
  Fixture c;
  c.load();
  EXPECT_EQ(c.net.a().state(c.ids.a), State::LapSent);
  EXPECT_EQ(c.net.b().state(c.ids.b), State::LapRcvd);
  const auto& reported =
      std::get<LapReceived>(c.net.b().last(CmEventType::LapReceived)->event.details);
  EXPECT_EQ(reported.alternate.sgid, c.net.b().other_gid());
  EXPECT_EQ(reported.alternate.dlid, c.net.a().lid);
  ASSERT_TRUE(c.net.b().cm.send_apr(c.ids.b, {}, c.net.now).has_value());
  c.net.run_shortly();
  for (const auto& [host, id] : {
           std::pair{&c.net.a(), c.ids.a},
           std::pair{&c.net.b(), c.ids.b}
  }) {
    EXPECT_EQ(host->state(id), State::Established);
    const auto attributes = host->cm.init_qp_attributes(id, QpState::Rts);
    ASSERT_TRUE(attributes.has_value());
    EXPECT_EQ(attributes->mask,
              QpAttributeMask{QpAttribute::AlternatePath} | QpAttribute::PathMigrationState);
    EXPECT_EQ(attributes->attributes.migration, MigrationState::Rearm);
    EXPECT_EQ(attributes->attributes.alternate_address.sl, ServiceLevel{3});
    EXPECT_FALSE(attributes->attributes.alternate_timeout.is_infinite());
  }
  // After the migration of the QP, the CM's own messages use the new path too.
  ASSERT_TRUE(c.net.a().cm.notify(c.ids.a, AsyncEventType::PathMigrated, c.net.now).has_value());
  EXPECT_EQ(c.net.a().cm.status(c.ids.a)->primary, c.alternate);
  ASSERT_TRUE(c.net.a().cm.send_dreq(c.ids.a, {}, c.net.now).has_value());
  EXPECT_EQ(c.net.a().gsi.poll_transmit(c.net.now)->address.sl, ServiceLevel{3});
}

TEST(AlternatePath, StatusesSurviveTheWay) {  // T-CM-8
  for (unsigned status = 0; status <= 13; ++status) {
    Fixture c;
    c.load();
    const std::array information = {std::byte{7}, static_cast<std::byte>(status)};
    ASSERT_TRUE(c.net.b()
                    .cm
                    .send_apr(c.ids.b,
                              {.status = static_cast<AprStatus>(status),
                               .additional_information = information},
                              c.net.now)
                    .has_value());
    c.net.run_shortly();
    const Reported* const reported = c.net.a().last(CmEventType::AprReceived);
    ASSERT_NE(reported, nullptr);
    const auto& apr = std::get<AprReceived>(reported->event.details);
    EXPECT_EQ(apr.status, static_cast<AprStatus>(status));
    EXPECT_TRUE(std::ranges::equal(apr.additional_information, information));
    const auto attributes = c.net.a().cm.init_qp_attributes(c.ids.a, QpState::Rts);
    EXPECT_EQ(attributes->mask.has(QpAttribute::AlternatePath), status == 0) << status;
    EXPECT_EQ(c.net.a().state(c.ids.a), State::Established);
  }
}

TEST(AlternatePath, ThatCannotBeIsRefusedWithoutTheUser) {
  Fixture c;
  const auto status_for = [&](const Path& path) {
    EXPECT_TRUE(c.net.a().cm.send_lap(c.ids.a, path, {}, c.net.now).has_value());
    c.net.run_shortly();
    const Reported* const reported = c.net.a().last(CmEventType::AprReceived);
    return reported == nullptr ? AprStatus::Unsupported
                               : std::get<AprReceived>(reported->event.details).status;
  };
  Path wrong_gid = c.alternate;
  wrong_gid.dgid = {kDefaultGidPrefix, Guid{1}};
  EXPECT_EQ(status_for(wrong_gid), AprStatus::InvalidGid);
  EXPECT_EQ(status_for(TestCmNetwork::path(c.net.a(), c.net.b())), AprStatus::IsCurrentPath);
  EXPECT_EQ(c.net.b().count(CmEventType::LapReceived), 0U);
  EXPECT_EQ(c.net.b().state(c.ids.b), State::Established);
}

TEST(AlternatePath, IsRefusedToCallersThatMixThingsUp) {
  Fixture c;
  Path path = c.alternate;
  path.pkey = PKey{0x1234};
  EXPECT_EQ(c.net.a().cm.send_lap(c.ids.a, path, {}, c.net.now).error().code,
            ErrorCode::InvalidArgument);
  for (const AsyncEventType event : {AsyncEventType::PathMigrated, AsyncEventType::QpFatal}) {
    EXPECT_EQ(c.net.a().cm.notify(c.ids.a, event, c.net.now).error().code,
              ErrorCode::InvalidArgument);
  }
  EXPECT_EQ(c.net.a().state(c.ids.a), State::Established);
}

TEST(AlternatePath, LapIsRepeatedAndItsAnswerToo) {
  Fixture c;
  unsigned aprs = 0;
  c.net.loses = [&](const TestCmNetwork::Sent& sent) {
    return sent.attribute == CmAttribute::Apr && ++aprs == 1;
  };
  c.load();
  ASSERT_TRUE(c.net.b().cm.send_apr(c.ids.b, {}, c.net.now).has_value());
  c.net.run_for(Duration::seconds(1));
  EXPECT_EQ(c.net.count(CmAttribute::Lap), 2U);
  EXPECT_EQ(c.net.count(CmAttribute::Apr), 2U);
  EXPECT_EQ(c.net.b().count(CmEventType::LapReceived), 1U);
  EXPECT_EQ(c.net.a().count(CmEventType::AprReceived), 1U);
  // Another one afterwards is new.
  c.load();
  EXPECT_EQ(c.net.b().count(CmEventType::LapReceived), 2U);
}

/// A network that reorders may bring a copy of a LAP after the next one was answered.
TEST(AlternatePath, LateCopyOfAnEarlierLapIsNoNewOne) {
  Fixture c;
  c.load();
  ASSERT_TRUE(c.net.b().cm.send_apr(c.ids.b, {}, c.net.now).has_value());
  c.net.run_shortly();
  const mad::MadBytes first = c.net.last(CmAttribute::Lap)->mad;
  c.alternate.sl = ServiceLevel{4};
  c.load();
  ASSERT_TRUE(c.net.b().cm.send_apr(c.ids.b, {}, c.net.now).has_value());
  c.net.run_for(Duration::microseconds(100));
  c.net.inject(c.net.b(), c.net.a().lid, first);
  EXPECT_EQ(c.net.b().count(CmEventType::LapReceived), 2U);
  EXPECT_EQ(c.net.b().state(c.ids.b), State::Established);
  EXPECT_EQ(c.net.b().cm.status(c.ids.b)->alternate->sl, ServiceLevel{4});
  // When no duplicate can be in flight any more, the same octets are a new request.
  c.net.run_for(Duration::milliseconds(10));
  c.net.inject(c.net.b(), c.net.a().lid, first);
  EXPECT_EQ(c.net.b().count(CmEventType::LapReceived), 3U);
}

/// Its first REQ after the restart comes from the LID that the connection has left.
TEST(AlternatePath, ConnectionOfARestartedPeerIsStaleAfterItsMigrationToo) {
  Fixture c;
  TestHost& b = c.net.b();
  PortAddress wide = c.net.a().address();
  wide.lmc = 2;
  ASSERT_TRUE(c.net.a().cm.update_port(TestHost::kPort, wide).has_value());
  c.alternate.slid = Lid{3};
  c.load();
  ASSERT_TRUE(b.cm.send_apr(c.ids.b, {}, c.net.now).has_value());
  c.net.run_shortly();
  ASSERT_TRUE(b.cm.notify(c.ids.b, AsyncEventType::PathMigrated, c.net.now).has_value());
  auto req = message_of<wire::Req>(c.net.sent.at(0).mad);
  req.local_communication_id = 4711;
  c.net.inject(b, c.net.a().lid, make_mad(CmAttribute::Req, 1, req));
  EXPECT_EQ(b.cm.counters().stale, 1U);
  EXPECT_EQ(b.state(c.ids.b), State::DreqSent);
}

TEST(AlternatePath, LapWaitsForAnMraAndIsGivenUpAtLast) {
  Fixture c;
  c.load();
  ASSERT_TRUE(c.net.b().cm.send_mra(c.ids.b, 18, {}, c.net.now).has_value());
  c.net.run_for(Duration::seconds(1));
  EXPECT_EQ(c.net.a().state(c.ids.a), State::MraLapRcvd);
  EXPECT_EQ(c.net.count(CmAttribute::Lap), 1U);
  c.net.loses = [](const TestCmNetwork::Sent&) { return true; };
  c.net.run();
  EXPECT_EQ(c.net.a().count(CmEventType::LapTimeout), 1U);
  EXPECT_EQ(c.net.a().state(c.ids.a), State::Established);
}

TEST(AlternatePath, PendingLapIsGivenUpForADreq) {
  Fixture c;
  c.load();
  ASSERT_TRUE(c.net.a().cm.send_dreq(c.ids.a, {}, c.net.now).has_value());
  answer_all(c.net);
  c.net.run();
  EXPECT_EQ(c.net.count(CmAttribute::Lap), 1U);
  EXPECT_EQ(c.net.a().count(CmEventType::TimewaitExit), 1U);
  EXPECT_EQ(c.net.b().count(CmEventType::TimewaitExit), 1U);
}

TEST(AlternatePath, OfARequestIsInTheAttributesForRtr) {
  TestCmNetwork net;
  (void)net.b().listener(0x1000);
  auto request = net.request();
  request.alternate = request.primary;
  request.alternate->sl = ServiceLevel{5};
  const CmId id = net.a().make();
  ASSERT_TRUE(net.a().cm.send_req(id, request, net.now).has_value());
  net.run_shortly();
  const auto& reported = std::get<ReqReceived>(net.b().reported.at(0).event.details);
  ASSERT_TRUE(reported.alternate.has_value());
  EXPECT_EQ(reported.alternate->sl, ServiceLevel{5});
  const auto rtr = net.b().cm.init_qp_attributes(net.b().newest, QpState::Rtr);
  ASSERT_TRUE(rtr.has_value());
  EXPECT_TRUE(rtr->mask.has(QpAttribute::AlternatePath));
  EXPECT_EQ(rtr->attributes.alternate_address.sl, ServiceLevel{5});
  const auto rts = net.b().cm.init_qp_attributes(net.b().newest, QpState::Rts);
  EXPECT_TRUE(rts->mask.has(QpAttribute::PathMigrationState));
  EXPECT_EQ(rts->attributes.migration, MigrationState::Rearm);
}

}  // namespace
}  // namespace weft::cm
