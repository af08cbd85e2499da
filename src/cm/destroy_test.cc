// Notification of the peer when an id is destroyed, in each state (R-CM-5; T-CM-10), and TimeWait
// (R-CM-11; T-CM-11).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "cm/testing/states.h"
#include "wire/cm/dreq.h"
#include "wire/cm/sidr.h"

namespace weft::cm {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::CmAttribute;
using wire::RejectReason;
using enum CmEventType;

/// Destroys an id. Checks that no event follows and that nothing of the id remains at the end;
/// messages sent are in `net.sent`.
void destroy(TestCmNetwork& net, TestHost& host, CmId id) {
  const auto told_before = host.reported_for(id).size();
  net.sent.clear();
  ASSERT_TRUE(host.cm.destroy(id, net.now).has_value());
  EXPECT_EQ(host.cm.destroy(id, net.now).error().code, ErrorCode::NotFound);
  net.run();
  EXPECT_EQ(host.reported_for(id).size(), told_before);
  EXPECT_FALSE(host.cm.status(id).has_value());
}

RejectReason last_reason(TestCmNetwork& net) {
  const auto* const sent = net.last(CmAttribute::Rej);
  return sent == nullptr ? RejectReason{} : message_of<wire::Rej>(sent->mad).reason;
}

/// The expected message to the peer; `reason` of a REJ.
struct LastWords {
  std::optional<CmAttribute> attribute{};
  RejectReason reason{};
};

[[nodiscard]] LastWords last_words(State state) {
  switch (state) {
    case State::Idle:
    case State::Listen:
    case State::DreqSent:
    case State::Timewait:
    case State::SidrReqSent:
      return {};
    case State::ReqSent:
    case State::MraReqRcvd:
      return {.attribute = CmAttribute::Rej, .reason = RejectReason::Timeout};
    case State::Established:
    case State::LapSent:
    case State::LapRcvd:
    case State::MraLapSent:
    case State::MraLapRcvd:
      return {.attribute = CmAttribute::Dreq};
    case State::DreqRcvd:
      return {.attribute = CmAttribute::Drep};
    case State::SidrReqRcvd:
      return {.attribute = CmAttribute::SidrRep};
    default:
      return {.attribute = CmAttribute::Rej, .reason = RejectReason::ConsumerReject};
  }
}

class DestroyInEachState : public ::testing::TestWithParam<unsigned> {
 protected:
  [[nodiscard]] static State state() { return static_cast<State>(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(, DestroyInEachState, ::testing::Range(0U, kStateCount),
                         [](const auto& each) {
                           return std::string{name_of(static_cast<State>(each.param))};
                         });

TEST_P(DestroyInEachState, TellsThePeerAndCallsNobodyAfterwards) {  // T-CM-10
  TestCmNetwork net;
  const InState in = put_into(net, state());
  TestHost& host = *in.host;
  TestHost& peer = &host == &net.a() ? net.b() : net.a();
  const auto told_before = host.reported_for(in.id).size();
  const auto peer_was_told = peer.reported.size();
  net.sent.clear();
  host.on_event = [&](CmId id, const CmEvent&, Instant) {
    EXPECT_NE(id, in.id) << "told after it was destroyed";
    return Handled::Keep;
  };
  ASSERT_TRUE(host.cm.destroy(in.id, net.now).has_value());
  EXPECT_EQ(host.cm.destroy(in.id, net.now).error().code, ErrorCode::NotFound);
  net.run_shortly();
  const LastWords expected = last_words(state());
  std::vector<CmAttribute> attributes;
  if (expected.attribute) {
    attributes.push_back(*expected.attribute);
  }
  EXPECT_EQ(net.sent_by(host), attributes);
  if (expected.attribute == CmAttribute::Rej) {
    EXPECT_EQ(last_reason(net), expected.reason);
  }
  if (expected.attribute == CmAttribute::SidrRep) {
    EXPECT_EQ(message_of<wire::SidrRep>(net.last(CmAttribute::SidrRep)->mad).status,
              wire::SidrStatus::Rejected);
  }
  EXPECT_EQ(peer.reported.size() - peer_was_told, attributes.size());  // it saw that
  net.run();                                                           // whatever timers are left
  EXPECT_EQ(host.reported_for(in.id).size(), told_before);
  EXPECT_FALSE(host.cm.status(in.id).has_value());
}

/// The id's own events that wait while another's handler runs are dropped.
TEST(Destroy, DropsUndeliveredEvents) {  // T-CM-10
  TestCmNetwork net;
  const Connected ids = connect(net);
  TestHost& b = net.b();
  const mad::MadBytes dreq =
      make_mad(CmAttribute::Dreq, 1,
               wire::Dreq{.local_communication_id = b.cm.status(ids.b)->remote_communication_id,
                          .remote_communication_id = b.cm.status(ids.b)->local_communication_id,
                          .remote_qpn = b.cm.status(ids.b)->local_qpn});
  unsigned requests = 0;
  b.on_event = [&](CmId id, const CmEvent& event, Instant now) {
    EXPECT_NE(id, ids.b);
    if (event.type == ReqReceived) {
      ++requests;
      b.gsi.handle_mad({.lid = net.a().lid}, dreq, now);  // delivered after this handler
      EXPECT_TRUE(b.cm.destroy(ids.b, now).has_value());
    }
    return Handled::Keep;
  };
  auto request = net.request();
  request.qpn = Qpn{0x77};
  ASSERT_TRUE(net.a().cm.send_req(net.a().make(), request, net.now).has_value());
  net.run();
  EXPECT_EQ(requests, 1U);
}

struct Half {
  TestCmNetwork net;
  CmId client{net.a().make()};
  CmId listener{net.b().listener(0x1000)};
  CmId server{};

  void request() {
    ASSERT_TRUE(net.a().cm.send_req(client, net.request(), net.now).has_value());
    net.run_shortly();
    server = net.b().newest;
  }
  void reply() {
    request();
    ASSERT_TRUE(net.b().cm.send_rep(server, TestCmNetwork::reply(), net.now).has_value());
    net.run_shortly();
  }
};

TEST(Destroy, SaysNothingInIdleAndListen) {
  Half half;
  destroy(half.net, half.net.a(), half.client);
  destroy(half.net, half.net.b(), half.listener);
  EXPECT_THAT(half.net.sent, IsEmpty());
}

TEST(Destroy, RejectsByTimeoutWhatWasAskedAndNotAnswered) {
  Half half;
  half.request();
  destroy(half.net, half.net.a(), half.client);
  EXPECT_THAT(half.net.sent_by(half.net.a()), ElementsAre(CmAttribute::Rej));
  EXPECT_EQ(last_reason(half.net), RejectReason::Timeout);
  // The server's id is found by the CA GUID, for the client did not know it.
  EXPECT_THAT(half.net.b().reported_for(half.server), ElementsAre(ReqReceived, RejReceived));
  EXPECT_EQ(half.net.b().state(half.server), State::Idle);
}

TEST(Destroy, RejectsARequestForTheConsumer) {
  for (const bool is_after_mra : {false, true}) {
    Half half;
    half.request();
    if (is_after_mra) {
      ASSERT_TRUE(half.net.b().cm.send_mra(half.server, 15, {}, half.net.now).has_value());
      half.net.run_shortly();
    }
    destroy(half.net, half.net.b(), half.server);
    EXPECT_EQ(last_reason(half.net), RejectReason::ConsumerReject);
    EXPECT_EQ(half.net.a().last(RejReceived)->id, half.client);
    EXPECT_EQ(half.net.a().state(half.client), State::Idle);
  }
}

TEST(Destroy, LeavesARequestUnansweredForWantOfMemory) {
  Half half;
  unsigned requests = 0;
  half.net.b().on_event = [&](CmId, const CmEvent& event, Instant) {
    return event.type == ReqReceived && ++requests == 1 ? Handled::DestroyNoResources
                                                        : Handled::Keep;
  };
  half.request();
  EXPECT_EQ(half.net.count(CmAttribute::Rej), 0U);
  half.net.run_for(Duration::milliseconds(25));
  EXPECT_EQ(requests, 2U);  // retried
  EXPECT_EQ(half.net.count(CmAttribute::Rej), 0U);
}

TEST(Destroy, RejectsAReplyForTheConsumer) {
  Half half;
  half.reply();
  destroy(half.net, half.net.a(), half.client);
  EXPECT_EQ(last_reason(half.net), RejectReason::ConsumerReject);
  EXPECT_EQ(message_of<wire::Rej>(half.net.last(CmAttribute::Rej)->mad).subject,
            wire::CmSubject::Rep);
  EXPECT_THAT(half.net.b().reported_for(half.server), ElementsAre(ReqReceived, RejReceived));
}

TEST(Destroy, TakesAReplyBackAndWaitsAlone) {
  Half half;
  half.reply();
  half.net.sent.clear();
  ASSERT_TRUE(half.net.b().cm.destroy(half.server, half.net.now).has_value());
  half.net.run_shortly();
  EXPECT_TRUE(half.net.b().cm.status(half.server)->is_detached);
  EXPECT_EQ(half.net.b().state(half.server), State::Timewait);
  EXPECT_EQ(last_reason(half.net), RejectReason::ConsumerReject);
  EXPECT_THAT(half.net.a().reported_for(half.client), ElementsAre(RepReceived, RejReceived));
  half.net.run();
  EXPECT_FALSE(half.net.b().cm.status(half.server).has_value());
}

TEST(Destroy, DisconnectsWhatIsEstablished) {
  TestCmNetwork net;
  const Connected ids = connect(net);
  answer_all(net);
  destroy(net, net.a(), ids.a);
  EXPECT_THAT(net.sent_by(net.a()), ElementsAre(CmAttribute::Dreq));
  EXPECT_THAT(net.b().reported_for(ids.b),
              ElementsAre(ReqReceived, RtuReceived, DreqReceived, TimewaitExit));
}

TEST(Destroy, RepeatsItsDreqThoughNobodyWaitsForTheAnswer) {
  TestCmNetwork net;
  const Connected ids = connect(net);
  answer_all(net);
  unsigned dreqs = 0;
  net.loses = [&](const TestCmNetwork::Sent& sent) {
    return sent.attribute == CmAttribute::Dreq && ++dreqs <= 2;
  };
  ASSERT_TRUE(net.a().cm.send_dreq(ids.a, {}, net.now).has_value());
  destroy(net, net.a(), ids.a);
  EXPECT_EQ(dreqs, 3U);
  EXPECT_EQ(net.b().count(DreqReceived), 1U);
}

TEST(Destroy, AnswersADreqThatItsUserDidNot) {
  TestCmNetwork net;
  const Connected ids = connect(net);
  ASSERT_TRUE(net.a().cm.send_dreq(ids.a, {}, net.now).has_value());
  net.run_shortly();
  ASSERT_EQ(net.b().state(ids.b), State::DreqRcvd);
  destroy(net, net.b(), ids.b);
  EXPECT_THAT(net.sent_by(net.b()), ElementsAre(CmAttribute::Drep));
  EXPECT_EQ(net.a().count(DrepReceived), 1U);
}

TEST(Destroy, OfBothSidesAtOnceEnds) {
  TestCmNetwork net;
  const Connected ids = connect(net);
  ASSERT_TRUE(net.a().cm.destroy(ids.a, net.now).has_value());
  ASSERT_TRUE(net.b().cm.destroy(ids.b, net.now).has_value());
  net.run();
  EXPECT_THAT(net.a().cm.ids(), IsEmpty());
  EXPECT_EQ(net.b().cm.ids().size(), 1U);  // the listener
}

TEST(Destroy, IsLegalFromTheIdsOwnHandler) {  // R-CM-5, R-CM-12
  for (const bool by_return : {false, true}) {
    TestCmNetwork net;
    const Connected ids = connect(net);
    net.b().on_event = [&](CmId id, const CmEvent&, Instant now) {
      if (by_return) {
        return Handled::Destroy;
      }
      EXPECT_TRUE(net.b().cm.destroy(id, now).has_value());
      return Handled::Destroy;  // has no further effect
    };
    ASSERT_TRUE(net.a().cm.send_dreq(ids.a, {}, net.now).has_value());
    net.run();
    EXPECT_THAT(net.a().reported_for(ids.a), ElementsAre(RepReceived, DrepReceived, TimewaitExit));
    EXPECT_FALSE(net.b().cm.status(ids.b).has_value());
  }
}

/// Replies to each connection with a different QPN.
void answer_with_own_qpns(TestCmNetwork& net) {
  net.b().on_event = [&net, qpn = 0x500U](CmId id, const CmEvent& event, Instant now) mutable {
    if (event.type == ReqReceived) {
      auto reply = TestCmNetwork::reply();
      reply.qpn = Qpn{++qpn};
      EXPECT_TRUE(net.b().cm.send_rep(id, reply, now).has_value());
    } else if (event.type == DreqReceived) {
      EXPECT_TRUE(net.b().cm.send_drep(id, {}, now).has_value());
    }
    return Handled::Keep;
  };
}

TEST(Destroy, EndsTheOldestTimeWaitAboveTheLimit) {
  TestCmNetwork net{1, {}, {.limits = {.time_waits = 2}}};
  (void)net.b().listener(0x1000);
  answer_all(net);
  answer_with_own_qpns(net);
  for (unsigned i = 0; i < 5; ++i) {
    auto request = net.request();
    request.primary.packet_life_time = 18;
    request.qpn = Qpn{100 + i};
    const CmId id = net.a().make();
    ASSERT_TRUE(net.a().cm.send_req(id, request, net.now).has_value());
    net.b().cm.check_invariants();
    net.run_shortly();
    ASSERT_TRUE(net.a().cm.destroy(id, net.now).has_value());
  }
  EXPECT_EQ(net.a().cm.ids().size(), 2U);
  EXPECT_EQ(net.a().cm.counters().time_waits_evicted, 3U);
}

TEST(TimeWait, KeepsItsQpFromANewConnection) {  // T-CM-11, R-CM-11
  TestCmNetwork net;
  (void)net.b().listener(0x1000);
  answer_all(net);
  answer_with_own_qpns(net);
  auto request = net.request();
  request.primary.packet_life_time = 16;  // 0.27 s, and twice that for a time-wait
  const auto connect_again = [&] {
    const CmId id = net.a().make();
    EXPECT_TRUE(net.a().cm.send_req(id, request, net.now).has_value());
    net.run_shortly();
    return id;
  };
  const CmId first = connect_again();
  ASSERT_TRUE(net.a().cm.send_dreq(first, {}, net.now).has_value());
  net.run_shortly();
  ASSERT_EQ(net.b().state(net.b().newest), State::Timewait);

  const CmId early = connect_again();
  EXPECT_EQ(last_reason(net), RejectReason::StaleConnection);
  EXPECT_THAT(net.a().reported_for(early), ElementsAre(RejReceived));
  net.run_for(Duration::seconds(2));
  EXPECT_EQ(net.b().count(TimewaitExit), 1U);
  const CmId late = connect_again();
  EXPECT_EQ(net.a().state(late), State::Established);
}

TEST(TimeWait, LetsAQpBeConnectedAtOnceWhereThatIsWanted) {
  TestCmNetwork net{1, {}, {.holds_time_wait = false}};
  (void)net.b().listener(0x1000);
  answer_all(net);
  for (int i = 0; i < 5; ++i) {
    const CmId id = net.a().make();
    ASSERT_TRUE(net.a().cm.send_req(id, net.request(), net.now).has_value());
    net.run_shortly();
    ASSERT_EQ(net.a().state(id), State::Established);
    ASSERT_TRUE(net.a().cm.send_dreq(id, {}, net.now).has_value());
    net.run_shortly();
    ASSERT_EQ(net.a().state(id), State::Timewait);
  }
  net.run();
  EXPECT_EQ(net.a().count(TimewaitExit), 5U);
}

TEST(Stale, ConnectionOfARestartedPeerIsEndedByItsNextRequest) {
  TestCmNetwork net;
  const Connected ids = connect(net);
  // The peer's QP, with another communication id: it has forgotten the old connection.
  const CmId again = net.a().make();
  ASSERT_TRUE(net.a().cm.send_req(again, net.request(), net.now).has_value());
  net.run_shortly();
  EXPECT_EQ(last_reason(net), RejectReason::StaleConnection);
  EXPECT_EQ(net.b().cm.counters().stale, 1U);
  EXPECT_EQ(net.b().state(ids.b), State::DreqSent);
  EXPECT_EQ(net.a().count(DreqReceived), 1U);
}

TEST(Stale, ReplyNamesAQpThatIsConnectedAlready) {
  TestCmNetwork net;
  const Connected ids = connect(net);
  auto request = net.request();
  request.qpn = Qpn{0x99};
  const CmId again = net.a().make();
  ASSERT_TRUE(net.a().cm.send_req(again, request, net.now).has_value());
  net.run_shortly();
  ASSERT_TRUE(net.b().cm.send_rep(net.b().newest, TestCmNetwork::reply(), net.now).has_value());
  net.run_shortly();
  EXPECT_EQ(last_reason(net), RejectReason::StaleConnection);
  EXPECT_EQ(net.a().state(ids.a), State::DreqSent);
}

}  // namespace
}  // namespace weft::cm
