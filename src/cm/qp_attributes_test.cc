// QP attributes for each transition (R-CM-3), and ports.

#include <gtest/gtest.h>

#include "cm/messages.h"
#include "cm/testing/network.h"
#include "verbs/qp_attributes.h"

namespace weft::cm {
namespace {

using enum QpAttribute;

QpModification modification(const TestHost& host, CmId id, QpState target) {
  const auto result = host.cm.init_qp_attributes(id, target);
  EXPECT_TRUE(result.has_value()) << result.error().reason;
  return result.value_or(QpModification{});
}

TEST(QpAttributes, OfBothSidesFitEachOther) {
  TestCmNetwork net;
  const Connected ids = connect(net);
  const auto a_rtr = modification(net.a(), ids.a, QpState::Rtr);
  const auto b_rtr = modification(net.b(), ids.b, QpState::Rtr);
  const auto a_rts = modification(net.a(), ids.a, QpState::Rts);
  const auto b_rts = modification(net.b(), ids.b, QpState::Rts);
  EXPECT_EQ(a_rtr.attributes.dest_qpn, Qpn{0x22});
  EXPECT_EQ(b_rtr.attributes.dest_qpn, Qpn{0x11});
  EXPECT_EQ(a_rtr.attributes.rq_psn, b_rts.attributes.sq_psn);
  EXPECT_EQ(b_rtr.attributes.rq_psn, a_rts.attributes.sq_psn);
  EXPECT_EQ(a_rtr.attributes.rq_psn, Psn{0x111});  // the PSN that this side requested
  EXPECT_EQ(a_rts.attributes.max_rd_atomic, b_rtr.attributes.max_dest_rd_atomic);
  EXPECT_EQ(b_rts.attributes.max_rd_atomic, a_rtr.attributes.max_dest_rd_atomic);
  EXPECT_EQ(a_rts.attributes.max_rd_atomic, 3);
  EXPECT_EQ(a_rtr.attributes.address.dlid, net.b().lid);
  EXPECT_EQ(b_rtr.attributes.address.dlid, net.a().lid);
  EXPECT_EQ(a_rtr.attributes.path_mtu, b_rtr.attributes.path_mtu);
  EXPECT_FALSE(a_rtr.attributes.address.is_global);
  EXPECT_EQ(a_rts.attributes.retry_count, 7);
  EXPECT_EQ(a_rts.attributes.rnr_retry, 7);
  EXPECT_EQ(a_rts.attributes.timeout.value(),
            ack_timeout(8, 5));  // with the delay that the REP named
  EXPECT_EQ(b_rts.attributes.timeout.value(), ack_timeout(8, 0));
  EXPECT_EQ(a_rtr.mask, QpAttributeMask{State} | AddressVector | PathMtu | DestQpn | RqPsn |
                            MaxDestRdAtomic | MinRnrTimer);
  EXPECT_EQ(a_rts.mask,
            QpAttributeMask{State} | SqPsn | Timeout | RetryCount | RnrRetry | MaxQpRdAtomic);

  const auto init = modification(net.a(), ids.a, QpState::Init);
  EXPECT_EQ(init.mask, QpAttributeMask{State} | RemoteAccess | PKeyIndex | Port);
  EXPECT_EQ(init.attributes.pkey_index, 1);
  EXPECT_EQ(init.attributes.port, PortNumber{1});
  EXPECT_TRUE(init.attributes.access.has_all(Flags{Access::RemoteWrite} | Access::RemoteRead));
}

TEST(QpAttributes, AreThereAsSoonAsTheyAreKnown) {
  TestCmNetwork net;
  (void)net.b().listener(0x1000);
  const CmId client = net.a().make();
  const auto is_known = [](TestHost& host, CmId id, QpState target) {
    return host.cm.init_qp_attributes(id, target).has_value();
  };
  EXPECT_FALSE(is_known(net.a(), client, QpState::Init));
  ASSERT_TRUE(net.a().cm.send_req(client, net.request(), net.now).has_value());
  EXPECT_TRUE(is_known(net.a(), client, QpState::Init));
  EXPECT_FALSE(is_known(net.a(), client, QpState::Rtr));
  net.run_shortly();
  const CmId server = net.b().newest;
  for (const auto target : {QpState::Init, QpState::Rtr, QpState::Rts}) {
    EXPECT_TRUE(is_known(net.b(), server, target));
  }
  EXPECT_FALSE(is_known(net.b(), server, QpState::Reset));
  // Before its reply the server uses the values that the client offered.
  EXPECT_EQ(modification(net.b(), server, QpState::Rtr).attributes.max_dest_rd_atomic, 3);
}

TEST(QpAttributes, OfUcHaveNothingForReadsAndRetries) {
  TestCmNetwork net;
  (void)net.b().listener(0x1000);
  auto request = net.request();
  request.qp_type = QpType::Uc;
  ASSERT_TRUE(net.a().cm.send_req(net.a().make(), request, net.now).has_value());
  net.run_shortly();
  const auto rtr = modification(net.b(), net.b().newest, QpState::Rtr);
  EXPECT_FALSE(rtr.mask.has(MaxDestRdAtomic));
  EXPECT_EQ(modification(net.b(), net.b().newest, QpState::Rts).mask,
            QpAttributeMask{State} | SqPsn);
}

TEST(QpAttributes, OfXrcAreOneHalfEach) {
  TestCmNetwork net;
  (void)net.b().listener(0x1000);
  auto request = net.request();
  request.qp_type = QpType::XrcInitiator;
  const CmId client = net.a().make();
  ASSERT_TRUE(net.a().cm.send_req(client, request, net.now).has_value());
  net.run_shortly();
  EXPECT_EQ(std::get<ReqReceived>(net.b().reported.at(0).event.details).qp_type, QpType::XrcTarget);
  ASSERT_TRUE(net.b().cm.send_rep(net.b().newest, TestCmNetwork::reply(), net.now).has_value());
  net.run_shortly();
  EXPECT_EQ(modification(net.a(), client, QpState::Rtr).attributes.dest_qpn, Qpn{0x22});
  EXPECT_TRUE(modification(net.b(), net.b().newest, QpState::Rtr).mask.has(MaxDestRdAtomic));
  EXPECT_FALSE(modification(net.b(), net.b().newest, QpState::Rts).mask.has(RetryCount));
  EXPECT_FALSE(modification(net.a(), client, QpState::Rtr).mask.has(MaxDestRdAtomic));
}

TEST(QpAttributes, BehindARouterHaveTheGlobalRoute) {
  TestCmNetwork net;
  (void)net.b().listener(0x1000);
  auto request = net.request();
  request.primary.hop_limit = 64;
  request.primary.flow_label = 0xABCDE;
  request.primary.traffic_class = 7;
  ASSERT_TRUE(net.a().cm.send_req(net.a().make(), request, net.now).has_value());
  const auto packet = net.a().gsi.poll_transmit(net.now);
  ASSERT_TRUE(packet->address.global.has_value());
  EXPECT_EQ(packet->address.global->dgid, net.b().gid());
  EXPECT_EQ(packet->address.global->hop_limit, 64);
  net.inject(net.b(), net.a().lid, packet->bytes);
  const auto rtr = modification(net.b(), net.b().newest, QpState::Rtr);
  EXPECT_TRUE(rtr.attributes.address.is_global);
  EXPECT_EQ(rtr.attributes.address.grh.dgid, net.a().gid());
  EXPECT_EQ(rtr.attributes.address.grh.flow_label, 0xABCDEU);
  EXPECT_EQ(rtr.attributes.address.dlid, net.a().lid);
}

TEST(AckTimeout, AddsPowersOfTwo) {
  EXPECT_EQ(ack_timeout(10, 0), 11);  // 2^11 covers 2^11 and a little: as the kernel has it
  EXPECT_EQ(ack_timeout(10, 10), 12);
  EXPECT_EQ(ack_timeout(10, 11), 12);
  EXPECT_EQ(ack_timeout(3, 15), 15);
  EXPECT_EQ(ack_timeout(13, 15), 16);
  EXPECT_EQ(ack_timeout(31, 31), 31);
}

TEST(Ports, AnswerALimitedMemberByTheirOwnPKey) {
  TestCmNetwork net;
  (void)net.b().listener(0x1000);
  auto request = net.request();
  ASSERT_TRUE(net.a().cm.send_req(net.a().make(), request, net.now).has_value());
  auto req = message_of<wire::Req>(net.a().gsi.poll_transmit(net.now)->bytes);
  req.pkey = PKey{0x7FFF};
  const PKey limited{0x7FFF};
  net.b().gsi.handle_mad({.lid = net.a().lid, .pkey = limited},
                         make_mad(wire::CmAttribute::Req, 1, req), net.now);
  ASSERT_TRUE(net.b().cm.send_rep(net.b().newest, TestCmNetwork::reply(), net.now).has_value());
  EXPECT_EQ(net.b().gsi.poll_transmit(net.now)->address.pkey, kDefaultPKey);
  EXPECT_EQ(modification(net.b(), net.b().newest, QpState::Init).attributes.pkey_index, 1);
}

TEST(Ports, ComeAndGo) {
  TestCmNetwork net;
  TestHost& a = net.a();
  EXPECT_EQ(a.cm.add_port(TestHost::kPort, a.gsi, a.address()).error().code, ErrorCode::Exists);
  const Connected ids = connect(net);
  ASSERT_TRUE(a.cm.remove_port(TestHost::kPort, net.now).has_value());
  EXPECT_EQ(a.cm.remove_port(TestHost::kPort, net.now).error().code, ErrorCode::NoSuchDevice);
  EXPECT_EQ(a.cm.init_qp_attributes(ids.a, QpState::Rts).error().code, ErrorCode::NoSuchDevice);
  EXPECT_EQ(a.cm.send_dreq(ids.a, {}, net.now).error().code, ErrorCode::NoSuchDevice);
  EXPECT_EQ(a.state(ids.a), State::Timewait);  // the connection is over all the same
  ASSERT_TRUE(a.cm.add_port(TestHost::kPort, a.gsi, a.address()).has_value());
  net.run();
  EXPECT_EQ(a.state(ids.a), State::Idle);
}

}  // namespace
}  // namespace weft::cm
