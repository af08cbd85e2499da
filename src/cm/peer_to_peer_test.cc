// Two peers that send each other a REQ (IBTA vol 1 §12.10.4).

#include <gtest/gtest.h>

#include "cm/testing/network.h"

namespace weft::cm {
namespace {

using wire::CmAttribute;

struct Peers {
  TestCmNetwork net;
  CmId a{net.a().make()};
  CmId b{net.b().make()};

  void ask(TestHost& host, CmId id) {
    TestHost& other = &host == &net.a() ? net.b() : net.a();
    auto request = net.request(0x5000);
    request.primary = TestCmNetwork::path(host, other);
    request.qpn = Qpn{0x10 + host.lid.value()};
    request.peer_to_peer = true;
    ASSERT_TRUE(host.cm.send_req(id, request, net.now).has_value());
  }
};

TEST(PeerToPeer, LargerCaGuidStaysTheActiveSide) {
  Peers peers;
  peers.ask(peers.net.a(), peers.a);
  peers.ask(peers.net.b(), peers.b);
  peers.net.run_shortly();
  // b's GUID is larger: a becomes passive and answers b's REQ on the same id.
  EXPECT_EQ(peers.net.a().state(peers.a), State::ReqRcvd);
  EXPECT_EQ(peers.net.b().state(peers.b), State::ReqSent);
  ASSERT_EQ(peers.net.a().count(CmEventType::ReqReceived), 1U);
  EXPECT_EQ(peers.net.a().reported.at(0).id, peers.a);
  EXPECT_EQ(std::get<ReqReceived>(peers.net.a().reported[0].event.details).listener, kNoCmId);
  auto reply = TestCmNetwork::reply();
  reply.qpn = Qpn{0x11};
  ASSERT_TRUE(peers.net.a().cm.send_rep(peers.a, reply, peers.net.now).has_value());
  peers.net.run_shortly();
  ASSERT_TRUE(peers.net.b().cm.send_rtu(peers.b, {}, peers.net.now).has_value());
  peers.net.run_shortly();
  EXPECT_EQ(peers.net.a().state(peers.a), State::Established);
  EXPECT_EQ(peers.net.b().state(peers.b), State::Established);
  EXPECT_EQ(peers.net.count(CmAttribute::Rep), 1U);
  answer_all(peers.net);
  ASSERT_TRUE(peers.net.a().cm.send_dreq(peers.a, {}, peers.net.now).has_value());
  peers.net.run();
  EXPECT_EQ(peers.net.b().count(CmEventType::TimewaitExit), 1U);
}

TEST(PeerToPeer, MatchesNoOtherServiceOrAddress) {
  Peers peers;
  peers.ask(peers.net.a(), peers.a);
  auto request = peers.net.request(0x5001);
  request.primary = TestCmNetwork::path(peers.net.b(), peers.net.a());
  request.peer_to_peer = true;
  ASSERT_TRUE(peers.net.b().cm.send_req(peers.b, request, peers.net.now).has_value());
  peers.net.run_shortly();
  EXPECT_EQ(peers.net.a().count(CmEventType::RejReceived), 1U);
  EXPECT_EQ(peers.net.b().count(CmEventType::RejReceived), 1U);
}

TEST(PeerToPeer, OnlyWhereBothWantIt) {
  Peers peers;
  peers.ask(peers.net.b(), peers.b);
  auto request = peers.net.request(0x5000);
  const CmId id = peers.net.a().make();
  ASSERT_TRUE(peers.net.a().cm.send_req(id, request, peers.net.now).has_value());
  peers.net.run_shortly();
  EXPECT_EQ(peers.net.a().count(CmEventType::ReqReceived), 0U);
  EXPECT_EQ(peers.net.a().count(CmEventType::RejReceived), 0U);  // b ignores it
  EXPECT_EQ(peers.net.b().count(CmEventType::RejReceived), 1U);
}

}  // namespace
}  // namespace weft::cm
