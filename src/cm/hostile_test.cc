// Peers that lie, repeat and flood: memory stays bounded, and other people's connections are left
// alone.

#include <gtest/gtest.h>

#include "cm/testing/network.h"
#include "wire/cm/dreq.h"

namespace weft::cm {
namespace {

using wire::CmAttribute;

mad::MadBytes req_of(const TestHost& to, std::uint32_t number, std::uint64_t service_id = 0x1000) {
  wire::Req req{.local_communication_id = number + 1,
                .service_id = service_id,
                .local_ca_guid = Guid{0xBAD},
                .local_qpn = Qpn{number & 0xFFFFFF},
                .local_cm_response_timeout = 31,
                .pkey = kDefaultPKey,
                .path_mtu = 3,
                .max_cm_retries = 15};
  req.primary.remote_gid = to.gid();
  req.primary.remote_lid = to.lid;
  req.primary.is_subnet_local = true;
  req.primary.local_ack_timeout = 31;
  return make_mad(CmAttribute::Req, number, req);
}

void drain(TestHost& host) {
  while (host.gsi.poll_transmit(Instant{Duration::seconds(1)})) {
  }
}

TEST(Hostile, FloodOfRequestsByOnePeerLeavesRoomForOthers) {
  TestCmNetwork net{1, {}, {.limits = {.ids = 500, .backlog = 400, .unanswered_of_peer = 100}}};
  TestHost& b = net.b();
  (void)b.listener(0x1000);
  for (std::uint32_t i = 0; i < 20'000; ++i) {
    b.gsi.handle_mad({.lid = Lid{66}}, req_of(b, i), net.now);
    drain(b);
  }
  b.cm.check_invariants();
  EXPECT_EQ(b.count(CmEventType::ReqReceived), 100U);
  EXPECT_EQ(b.cm.counters().no_resources, 19'900U);
  EXPECT_EQ(b.cm.counters().of(CmAttribute::Rej).sent, 0U);  // a REJ is not answered by a REJ
  ASSERT_TRUE(net.a().cm.send_req(net.a().make(), net.request(), net.now).has_value());
  net.run_shortly();
  EXPECT_EQ(b.count(CmEventType::ReqReceived), 101U);
}

TEST(Hostile, FloodsOfManyPeersStopAtTheBacklogAndTheLimitOfIds) {
  TestCmNetwork net{1, {}, {.limits = {.ids = 50, .backlog = 1000, .unanswered_of_peer = 10}}};
  TestHost& b = net.b();
  (void)b.listener(0x1000);
  for (std::uint32_t i = 0; i < 5'000; ++i) {
    b.gsi.handle_mad({.lid = Lid{100 + i % 1000}}, req_of(b, i), net.now);
    drain(b);
  }
  b.cm.check_invariants();
  EXPECT_EQ(b.cm.ids().size(), 50U);
  EXPECT_EQ(b.cm.create(b).error().code, ErrorCode::OutOfMemory);
}

TEST(Hostile, WaitsThatAreAskedForHaveALimit) {
  TestCmNetwork net;
  TestHost& b = net.b();
  (void)b.listener(0x1000);
  b.gsi.handle_mad({.lid = Lid{66}}, req_of(b, 1), net.now);
  ASSERT_TRUE(b.cm.send_rep(b.newest, TestCmNetwork::reply(), net.now).has_value());
  EXPECT_EQ(b.cm.deadline(), net.now + b.cm.limits().max_wait);  // not 2.4 hours
  // Repeated MRAs must not extend it forever either.
  const auto id = *b.cm.status(b.newest);
  const auto mra = make_mad(CmAttribute::Mra, 1,
                            wire::Mra{.local_communication_id = 2,
                                      .remote_communication_id = id.local_communication_id,
                                      .subject = wire::CmSubject::Rep,
                                      .service_timeout = 31});
  for (int i = 0; i < 1000; ++i) {
    net.now = net.now + Duration::seconds(10);
    b.cm.handle_timeout(net.now);
    b.gsi.handle_mad({.lid = Lid{66}}, mra, net.now);
  }
  EXPECT_EQ(b.count(CmEventType::MraReceived), 1U);
  EXPECT_EQ(b.count(CmEventType::RepTimeout), 1U);
}

TEST(Hostile, WhoDoesNotKnowBothIdsCannotEndAConnection) {
  TestCmNetwork net;
  const Connected ids = connect(net);
  const IdStatus id = *net.b().cm.status(ids.b);
  Random random{5};
  for (int i = 0; i < 2'000; ++i) {
    // One of the two is right.
    std::uint32_t local = id.remote_communication_id;
    std::uint32_t remote = id.local_communication_id;
    const auto wrong = static_cast<std::uint32_t>(random());
    (random.chance(1, 2) ? local : remote) = wrong;
    for (const auto attribute : {CmAttribute::Rej, CmAttribute::Drep, CmAttribute::Lap,
                                 CmAttribute::Apr, CmAttribute::Mra, CmAttribute::Rtu}) {
      net.b().gsi.handle_mad({.lid = Lid{66}}, make_mad(attribute, 1, wire::Rtu{local, remote, {}}),
                             net.now);
    }
    net.b().gsi.handle_mad({.lid = Lid{66}},
                           make_mad(CmAttribute::Dreq, 1,
                                    wire::Dreq{.local_communication_id = local,
                                               .remote_communication_id = remote,
                                               .remote_qpn = id.local_qpn}),
                           net.now);
    drain(net.b());
  }
  EXPECT_EQ(net.b().state(ids.b), State::Established);
  // Both right, but not the QP.
  net.b().gsi.handle_mad({.lid = Lid{66}},
                         make_mad(CmAttribute::Dreq, 1,
                                  wire::Dreq{.local_communication_id = id.remote_communication_id,
                                             .remote_communication_id = id.local_communication_id,
                                             .remote_qpn = Qpn{0x23}}),
                         net.now);
  EXPECT_EQ(net.b().state(ids.b), State::Established);
}

TEST(Hostile, WhoClaimsAnothersQpFromElsewhereEndsNoConnectionOfIt) {
  TestCmNetwork net;
  const Connected ids = connect(net);
  auto req = message_of<wire::Req>(net.sent.at(0).mad);
  req.local_communication_id = 4711;
  net.inject(net.b(), Lid{66}, make_mad(CmAttribute::Req, 1, req));
  EXPECT_EQ(net.b().state(ids.b), State::Established);
  EXPECT_EQ(net.count(CmAttribute::Dreq), 0U);
  // It has not taken the QP from its owner either.
  const CmId again = net.a().make();
  ASSERT_TRUE(net.a().cm.send_req(again, net.request(), net.now).has_value());
  net.run_shortly();
  EXPECT_EQ(net.b().state(ids.b), State::DreqSent);
}

TEST(Hostile, ReplayOfAWholeConversationChangesNothing) {
  TestCmNetwork net;
  const Connected ids = connect(net);
  const auto conversation = net.sent;
  const auto reported = net.a().reported.size() + net.b().reported.size();
  for (int round = 0; round < 3; ++round) {
    for (const auto& sent : conversation) {
      net.inject(sent.from == net.a().lid ? net.b() : net.a(), sent.from, sent.mad);
    }
    net.run_shortly();
  }
  EXPECT_EQ(net.a().reported.size() + net.b().reported.size(), reported);
  EXPECT_EQ(net.a().state(ids.a), State::Established);
  EXPECT_EQ(net.b().state(ids.b), State::Established);
  EXPECT_EQ(net.b().cm.ids().size(), 2U);
}

TEST(Hostile, ReplayAfterTheEndIsAnotherRequestAtMost) {
  TestCmNetwork net;
  const Connected ids = connect(net);
  answer_all(net);
  ASSERT_TRUE(net.a().cm.send_dreq(ids.a, {}, net.now).has_value());
  net.run();
  net.a().on_event = net.b().on_event = nullptr;
  const auto conversation = net.sent;
  for (const auto& sent : conversation) {
    net.inject(sent.from == net.a().lid ? net.b() : net.a(), sent.from, sent.mad);
    net.run_shortly();
  }
  EXPECT_EQ(net.a().state(ids.a), State::Idle);
  EXPECT_EQ(net.b().state(ids.b), State::Idle);
  EXPECT_LE(net.b().count(CmEventType::ReqReceived), 2U);
}

TEST(Hostile, BytesWithoutMeaningAreCounted) {
  TestCmNetwork net;
  (void)net.b().listener(0x1000);
  Random random{1};
  for (int i = 0; i < 20'000; ++i) {
    mad::MadBytes mad = make_mad(static_cast<CmAttribute>(0x10 + random.below(13)), random(),
                                 wire::arbitrary<wire::Req>(random));
    if (random.chance(1, 10)) {
      mad[2] = static_cast<std::byte>(random());
    }
    net.b().gsi.handle_mad({.lid = Lid{3}}, mad, net.now);
    drain(net.b());
  }
  net.b().cm.check_invariants();
  EXPECT_NE(net.b().cm.counters().unknown_attribute, 0U);
  EXPECT_NE(net.b().cm.counters().bad_version, 0U);
  EXPECT_NE(net.b().cm.counters().unmatched, 0U);
}

}  // namespace
}  // namespace weft::cm
