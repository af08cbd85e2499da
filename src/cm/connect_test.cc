// Making and ending connections (R-CM-1 to R-CM-4, R-CM-8, R-CM-9; T-CM-1 to T-CM-4, T-CM-12).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "cm/connection_manager.h"
#include "cm/testing/network.h"

namespace weft::cm {
namespace {

using ::testing::ElementsAre;
using wire::CmAttribute;
using enum CmEventType;

constexpr std::array kHello = {std::byte{'h'}, std::byte{'i'}};

[[nodiscard]] bool begins_with(const std::vector<std::byte>& data, ByteSpan what) {
  return data.size() >= what.size() && std::equal(what.begin(), what.end(), data.begin());
}

TEST(Connect, GoesThroughTheStatesOfBothSides) {  // T-CM-1
  TestCmNetwork net;
  TestHost& a = net.a();
  TestHost& b = net.b();
  const CmId listener = b.listener(0x1000);
  const CmId client = a.make();
  std::vector<State> a_states;
  std::vector<State> b_states;
  CmId server;
  const auto step = [&](Result<void> result) {
    ASSERT_TRUE(result.has_value()) << result.error().reason;
    a_states.push_back(a.state(client));
    b_states.push_back(b.state(server));
    net.run_shortly();
    server = b.newest;
    a_states.push_back(a.state(client));
    b_states.push_back(b.state(server));
  };
  auto request = net.request();
  request.private_data = kHello;
  step(a.cm.send_req(client, request, net.now));
  step(b.cm.send_rep(server, TestCmNetwork::reply(), net.now));
  step(a.cm.send_rtu(client, {}, net.now));
  step(a.cm.send_dreq(client, kHello, net.now));
  step(b.cm.send_drep(server, {}, net.now));
  net.run();
  a_states.push_back(a.state(client));
  b_states.push_back(b.state(server));

  a_states.erase(std::ranges::unique(a_states).begin(), a_states.end());
  b_states.erase(std::ranges::unique(b_states).begin(), b_states.end());
  EXPECT_THAT(a_states, ElementsAre(State::ReqSent, State::RepRcvd, State::Established,
                                    State::DreqSent, State::Timewait, State::Idle));
  EXPECT_THAT(b_states, ElementsAre(State::Idle, State::ReqRcvd, State::RepSent, State::Established,
                                    State::DreqRcvd, State::Timewait, State::Idle));
  EXPECT_THAT(a.reported_for(client), ElementsAre(RepReceived, DrepReceived, TimewaitExit));
  EXPECT_THAT(b.reported_for(server),
              ElementsAre(ReqReceived, RtuReceived, DreqReceived, TimewaitExit));
  EXPECT_TRUE(b.reported_for(listener).empty());
  EXPECT_THAT(net.sent_by(a), ElementsAre(CmAttribute::Req, CmAttribute::Rtu, CmAttribute::Dreq));
  EXPECT_THAT(net.sent_by(b), ElementsAre(CmAttribute::Rep, CmAttribute::Drep));
  EXPECT_TRUE(begins_with(b.reported[0].event.private_data, kHello));
  EXPECT_EQ(b.reported[0].event.private_data.size(), kReqPrivateData);
  EXPECT_TRUE(begins_with(b.last(DreqReceived)->event.private_data, kHello));
}

TEST(Connect, TellsTheServerWhatTheClientOffersSeenFromThere) {  // R-CM-9
  TestCmNetwork net;
  (void)net.b().listener(0x1000);
  auto request = net.request();
  request.ece = {.vendor_id = 0xABCDEF, .options = 0x1234'5678};
  request.srq = true;
  const CmId client = net.a().make();
  ASSERT_TRUE(net.a().cm.send_req(client, request, net.now).has_value());
  net.run_shortly();
  const auto& reported = std::get<weft::cm::ReqReceived>(net.b().reported.at(0).event.details);
  EXPECT_EQ(reported.responder_resources, request.initiator_depth);
  EXPECT_EQ(reported.initiator_depth, request.responder_resources);
  EXPECT_EQ(reported.remote_qpn, request.qpn);
  EXPECT_EQ(reported.starting_psn, request.starting_psn);
  EXPECT_EQ(reported.remote_ca, net.a().ca());
  EXPECT_EQ(reported.service_id, 0x1000U);
  EXPECT_EQ(reported.ece, request.ece);
  EXPECT_TRUE(reported.srq);
  EXPECT_EQ(reported.port, TestHost::kPort);
  EXPECT_EQ(reported.primary.sgid, net.b().gid());
  EXPECT_EQ(reported.primary.dlid, net.a().lid);
  EXPECT_EQ(reported.primary.pkey, kDefaultPKey);
  EXPECT_EQ(reported.qp_type, QpType::Rc);
}

TEST(Connect, EchoesTheTransactionIdOfTheRequestInItsAnswers) {
  TestCmNetwork net;
  const Connected ids = connect(net);
  ASSERT_TRUE(net.b().cm.send_dreq(ids.b, {}, net.now).has_value());
  net.run_shortly();
  ASSERT_TRUE(net.a().cm.send_drep(ids.a, {}, net.now).has_value());
  net.run_shortly();
  const auto tid = [&](CmAttribute attribute) {
    return header_of(net.last(attribute)->mad).transaction_id;
  };
  EXPECT_EQ(tid(CmAttribute::Rep), tid(CmAttribute::Req));
  EXPECT_EQ(tid(CmAttribute::Rtu), tid(CmAttribute::Req));
  EXPECT_EQ(tid(CmAttribute::Drep), tid(CmAttribute::Dreq));
}

TEST(Connect, AnswersEveryRepeatedRepByTheSameRtu) {  // T-CM-2
  TestCmNetwork net;
  TestHost& a = net.a();
  (void)net.b().listener(0x1000);
  answer_all(net);
  a.on_event = [&](CmId id, const CmEvent& event, Instant now) {
    if (event.type == RepReceived) {
      EXPECT_TRUE(a.cm.send_rtu(id, kHello, now).has_value());
    }
    return Handled::Keep;
  };
  unsigned rtus = 0;
  net.loses = [&](const TestCmNetwork::Sent& sent) {
    return sent.attribute == CmAttribute::Rtu && ++rtus == 1;
  };
  const CmId client = a.make();
  ASSERT_TRUE(a.cm.send_req(client, net.request(), net.now).has_value());
  net.run_for(Duration::seconds(1));
  EXPECT_EQ(net.count(CmAttribute::Rep), 2U);
  ASSERT_EQ(net.count(CmAttribute::Rtu), 2U);
  EXPECT_EQ(net.b().count(RtuReceived), 1U);
  EXPECT_TRUE(begins_with(net.b().last(RtuReceived)->event.private_data, kHello));
  EXPECT_EQ(net.b().state(net.b().newest), State::Established);
  EXPECT_EQ(a.count(RepReceived), 1U);
  EXPECT_EQ(a.cm.counters().of(CmAttribute::Rep).duplicates, 1U);
  EXPECT_EQ(a.cm.counters().of(CmAttribute::Rtu).retries, 1U);

  // And as long as the connection lives.
  const auto* const rep = net.last(CmAttribute::Rep);
  net.run_for(Duration::seconds(100));
  net.inject(a, net.b().lid, rep->mad);
  net.run_shortly();
  EXPECT_EQ(net.count(CmAttribute::Rtu), 3U);
}

TEST(Connect, AnswersFiveRepeatedRepsByFiveRtusAndGoesOn) {  // T-MI-6, R-MI-8
  TestCmNetwork net;
  const Connected ids = connect(net);
  answer_all(net);
  const mad::MadBytes rep = net.last(CmAttribute::Rep)->mad;
  const mad::MadBytes rtu = net.last(CmAttribute::Rtu)->mad;
  const auto reported = net.a().reported.size() + net.b().reported.size();
  net.sent.clear();
  for (int i = 0; i < 5; ++i) {
    net.inject(net.a(), net.b().lid, rep);
    net.run_shortly();
  }
  EXPECT_EQ(net.sent_by(net.a()), std::vector(5, CmAttribute::Rtu));
  for (const auto& sent : net.sent) {
    EXPECT_EQ(sent.mad, rtu);
  }
  EXPECT_EQ(net.a().reported.size() + net.b().reported.size(), reported);
  EXPECT_EQ(net.a().state(ids.a), State::Established);
  EXPECT_EQ(net.b().state(ids.b), State::Established);
  net.sent.clear();
  ASSERT_TRUE(net.b().cm.send_dreq(ids.b, {}, net.now).has_value());
  net.run_shortly();
  EXPECT_THAT(net.sent_by(net.b()), ElementsAre(CmAttribute::Dreq));
  EXPECT_THAT(net.sent_by(net.a()), ElementsAre(CmAttribute::Drep));
  EXPECT_EQ(net.b().count(DrepReceived), 1U);
}

TEST(Connect, GivesUpAfterItsRetriesAndSaysSoOnce) {  // T-CM-3
  TestCmNetwork net;
  (void)net.b().listener(0x1000);
  answer_all(net);
  net.loses = [](const TestCmNetwork::Sent& sent) { return sent.attribute == CmAttribute::Rep; };
  const CmId client = net.a().make();
  const Instant begin = net.now;
  ASSERT_TRUE(net.a().cm.send_req(client, net.request(), net.now).has_value());
  net.run();
  EXPECT_THAT(net.a().reported_for(client), ElementsAre(ReqTimeout));
  EXPECT_EQ(net.count(CmAttribute::Req), 5U);
  EXPECT_EQ(net.a().state(client), State::Idle);
  // Each time twice the packet life time and the remote CM's response time.
  const Duration response_timeout =
      TimeoutExponent{8}.duration() * 2 + TimeoutExponent{12}.duration();
  EXPECT_EQ(net.a().reported[0].at - begin, response_timeout * 5);
  // The server gives up likewise, by the response time that the REQ named.
  EXPECT_EQ(net.b().count(RepTimeout), 1U);
  EXPECT_EQ(net.count(CmAttribute::Rep), 5U);
  EXPECT_EQ(net.b().cm.counters().of(CmAttribute::Req).duplicates, 4U);
  EXPECT_EQ(net.b().count(ReqReceived), 1U);
}

TEST(Connect, HoldsItsRequestBackAsLongAsAnMraSays) {  // T-CM-4
  TestCmNetwork net;
  (void)net.b().listener(0x1000);
  const CmId client = net.a().make();
  ASSERT_TRUE(net.a().cm.send_req(client, net.request(), net.now).has_value());
  net.run_shortly();
  ASSERT_TRUE(net.b().cm.send_mra(net.b().newest, 20, kHello, net.now).has_value());
  net.run_for(Duration::milliseconds(4290));
  EXPECT_EQ(net.a().state(client), State::MraReqRcvd);
  EXPECT_EQ(net.b().state(net.b().newest), State::MraReqSent);
  EXPECT_EQ(net.count(CmAttribute::Req), 1U);
  EXPECT_THAT(net.a().reported_for(client), ElementsAre(MraReceived));
  const auto& reported = std::get<weft::cm::MraReceived>(net.a().reported[0].event.details);
  EXPECT_EQ(reported.service_timeout, 20);
  EXPECT_EQ(reported.subject, wire::CmSubject::Req);
  // Then it retries, and gets another MRA.
  net.run_for(Duration::milliseconds(20));
  EXPECT_EQ(net.count(CmAttribute::Req), 2U);
  EXPECT_EQ(net.count(CmAttribute::Mra), 2U);
  net.run_for(Duration::seconds(4));
  EXPECT_EQ(net.count(CmAttribute::Req), 2U);
  ASSERT_TRUE(net.b().cm.send_rep(net.b().newest, TestCmNetwork::reply(), net.now).has_value());
  net.run_shortly();
  EXPECT_EQ(net.a().state(client), State::RepRcvd);
}

TEST(Connect, LetsAServerWaitForTheRtuWithAnMra) {
  TestCmNetwork net;
  (void)net.b().listener(0x1000);
  const CmId client = net.a().make();
  ASSERT_TRUE(net.a().cm.send_req(client, net.request(), net.now).has_value());
  net.run_shortly();
  ASSERT_TRUE(net.b().cm.send_rep(net.b().newest, TestCmNetwork::reply(), net.now).has_value());
  net.run_shortly();
  ASSERT_TRUE(net.a().cm.send_mra(client, 20, {}, net.now).has_value());
  net.run_for(Duration::seconds(4));
  EXPECT_EQ(net.count(CmAttribute::Rep), 1U);
  EXPECT_EQ(net.b().state(net.b().newest), State::MraRepRcvd);
  // A duplicate is answered by the MRA again.
  net.inject(net.a(), net.b().lid, net.last(CmAttribute::Rep)->mad);
  net.run_shortly();
  EXPECT_EQ(net.count(CmAttribute::Mra), 2U);
  ASSERT_TRUE(net.a().cm.send_rtu(client, {}, net.now).has_value());
  net.run_shortly();
  EXPECT_EQ(net.b().state(net.b().newest), State::Established);
}

TEST(Connect, SendsAnMraOnlyToWhoAsksAgainWhereThatIsWanted) {
  TestCmNetwork net;
  (void)net.b().listener(0x1000);
  const CmId client = net.a().make();
  ASSERT_TRUE(net.a().cm.send_req(client, net.request(), net.now).has_value());
  net.run_shortly();
  ASSERT_TRUE(net.b().cm.send_mra(net.b().newest, 20, {}, net.now, MraTime::OnRetry).has_value());
  net.run_shortly();
  EXPECT_EQ(net.count(CmAttribute::Mra), 0U);
  net.run_for(Duration::milliseconds(100));
  EXPECT_EQ(net.count(CmAttribute::Mra), 1U);
  EXPECT_EQ(net.count(CmAttribute::Req), 2U);
}

TEST(Connect, WorksWithinOneHost) {
  TestCmNetwork net;
  TestHost& a = net.a();
  (void)a.listener(0x1000);
  auto request = net.request();
  request.primary = TestCmNetwork::path(a, a);
  const CmId client = a.make();
  ASSERT_TRUE(a.cm.send_req(client, request, net.now).has_value());
  answer_all(net);
  net.run_shortly();
  const CmId server = a.newest;
  EXPECT_EQ(a.state(client), State::Established);
  EXPECT_EQ(a.state(server), State::Established);
  ASSERT_TRUE(a.cm.send_dreq(server, {}, net.now).has_value());
  net.run();
  EXPECT_THAT(a.reported_for(client), ElementsAre(RepReceived, DreqReceived, TimewaitExit));
  EXPECT_THAT(a.reported_for(server),
              ElementsAre(ReqReceived, RtuReceived, DrepReceived, TimewaitExit));
}

TEST(Connect, EstablishesBeforeTheRtuWhenAPacketCame) {  // T-CM-12
  TestCmNetwork net;
  TestHost& b = net.b();
  (void)b.listener(0x1000);
  const CmId client = net.a().make();
  ASSERT_TRUE(net.a().cm.send_req(client, net.request(), net.now).has_value());
  net.run_shortly();
  EXPECT_EQ(b.cm.establish(b.newest, net.now).error().code, ErrorCode::InvalidArgument);
  ASSERT_TRUE(b.cm.send_rep(b.newest, TestCmNetwork::reply(), net.now).has_value());
  net.run_shortly();
  ASSERT_TRUE(b.cm.establish(b.newest, net.now).has_value());
  EXPECT_LE(b.cm.deadline(), net.now);  // an event is pending
  EXPECT_EQ(b.cm.establish(b.newest, net.now).error().code, ErrorCode::AlreadyConnected);
  ASSERT_TRUE(net.a().cm.send_rtu(client, {}, net.now).has_value());
  net.run();
  EXPECT_THAT(b.reported_for(b.newest), ElementsAre(ReqReceived, UserEstablished));
  EXPECT_EQ(b.cm.counters().of(CmAttribute::Rtu).duplicates, 1U);
}

TEST(Connect, EndsForBothWhenBothDisconnectAtOnce) {
  TestCmNetwork net;
  const Connected ids = connect(net);
  ASSERT_TRUE(net.a().cm.send_dreq(ids.a, {}, net.now).has_value());
  ASSERT_TRUE(net.b().cm.send_dreq(ids.b, {}, net.now).has_value());
  answer_all(net);
  net.run();
  EXPECT_EQ(net.a().state(ids.a), State::Idle);
  EXPECT_EQ(net.b().state(ids.b), State::Idle);
  EXPECT_EQ(net.a().count(TimewaitExit), 1U);
  EXPECT_EQ(net.b().count(TimewaitExit), 1U);
}

TEST(Connect, AnswersADreqOfAForgottenConnection) {
  TestCmNetwork net;
  const Connected ids = connect(net);
  // b's DREP is lost until b has freed the connection.
  answer_all(net);
  unsigned dreps = 0;
  net.loses = [&](const TestCmNetwork::Sent& sent) {
    return sent.attribute == CmAttribute::Drep && ++dreps <= 2;
  };
  ASSERT_TRUE(net.a().cm.send_dreq(ids.a, {}, net.now).has_value());
  net.run();
  EXPECT_EQ(net.a().count(DrepReceived), 1U);
  EXPECT_EQ(net.count(CmAttribute::Drep), 3U);
  EXPECT_EQ(net.b().count(DreqReceived), 1U);
}

TEST(Connect, GoesOnWhereTimeIsScaled) {
  TestCmNetwork net{1, {}, {.time_scale = TimeScale{10'000}}};
  const CmId client = net.a().make();
  const Instant begin = net.now;
  net.loses = [](const TestCmNetwork::Sent&) { return true; };
  ASSERT_TRUE(net.a().cm.send_req(client, net.request(), net.now).has_value());
  net.run();
  const Duration response_timeout =
      TimeoutExponent{8}.duration() * 2 + TimeoutExponent{12}.duration();
  EXPECT_LE(net.a().reported.at(0).at - begin,
            response_timeout * 5 / 100 + Duration::microseconds(1));
}

}  // namespace
}  // namespace weft::cm
