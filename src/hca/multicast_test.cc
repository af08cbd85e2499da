#include <gtest/gtest.h>

#include <array>
#include <map>

#include "hca/testing/loopback_pair.h"

/// Which QPs of a two-port HCA receive a multicast packet.
namespace weft::hca {
namespace {

constexpr Lid kMlid{0xC001};
const Gid kMgid{0xFF12'4000'0000'0000, Guid{1}};

class Multicast : public ::testing::Test {
 protected:
  Multicast() : hca_(two_ports(), events_) {
    for (std::uint8_t number = 1; number <= 2; ++number) {
      PortAttributes port;
      port.lid = Lid{number};
      port.pkeys = {kDefaultPKey};
      hca_.set_port(PortNumber{number}, port);
    }
    pd_ = *hca_.allocate_pd();
    region_ = *hca_.register_memory(*pd_, 0, memory_, Access::LocalWrite);
  }

  static HcaConfiguration two_ports() {
    HcaConfiguration configuration;
    configuration.port_count = 2;
    return configuration;
  }

  /// A QP in RTR on `port`, attached, with receives posted.
  Qp& member(std::uint8_t port) {
    CompletionQueue* const cq = *hca_.create_cq(16);
    QpInit init;
    init.type = QpType::Ud;
    init.pd = pd_;
    init.send_cq = init.recv_cq = cq;
    init.capabilities.max_recv_wr = 8;
    init.capabilities.max_recv_sge = 1;
    Qp* const qp = *hca_.create_qp(init);
    cqs_[qp] = cq;
    move_to(*qp, port);
    EXPECT_TRUE(hca_.attach_multicast(*qp, kMgid, kMlid));
    return *qp;
  }

  void move_to(Qp& qp, std::uint8_t port) {
    QpAttributes to;
    EXPECT_TRUE(qp.modify(to, QpAttribute::State));
    to.state = QpState::Init;
    to.port = PortNumber{port};
    EXPECT_TRUE(qp.modify(to, QpAttributeMask{QpAttribute::State} | QpAttribute::PKeyIndex |
                                  QpAttribute::Port | QpAttribute::QKey));
    to.state = QpState::Rtr;
    EXPECT_TRUE(qp.modify(to, QpAttribute::State));
    const Sge into{.address = 0, .length = 64, .lkey = region_->lkey};
    for (int i = 0; i < 4; ++i) {
      EXPECT_TRUE(qp.post_recv({
          .wr_id = 1, .sges = {&into, 1}
      }));
    }
  }

  void arrive(std::uint8_t port, Qpn from, bool is_loopback) {
    Packet packet;
    packet.header.opcode = packet.header.last_opcode = wire::Opcode::UdSendOnly;
    packet.header.pkey = kDefaultPKey;
    packet.header.dest_qp = kMulticastQpn;
    packet.header.dlid = kMlid;
    packet.header.has_grh = true;
    packet.header.grh.dgid = kMgid;
    packet.header.extension.deth = wire::Deth{.qkey = QKey{}, .src_qp = from};
    packet.is_loopback = is_loopback;
    hca_.handle_packet(PortNumber{port}, packet, Instant{});
  }

  std::size_t received(const Qp& qp) {
    std::array<Wc, 16> completions;
    return cqs_.at(&qp)->poll(completions);
  }

  testing::RecordedEvents events_;
  Hca hca_;
  std::array<std::byte, 64> memory_{};
  ProtectionDomain* pd_{};
  MemoryRegion* region_{};
  std::map<const Qp*, CompletionQueue*> cqs_;
};

TEST_F(Multicast, ReachesEachMemberOfThePortOnce) {
  Qp& first = member(1);
  Qp& first_too = member(1);
  Qp& second = member(2);
  arrive(2, Qpn{0x999}, false);
  EXPECT_EQ(received(first) + received(first_too), 0U);
  EXPECT_EQ(received(second), 1U);
  arrive(1, Qpn{0x999}, false);
  EXPECT_EQ(received(first), 1U);
  EXPECT_EQ(received(first_too), 1U);
  EXPECT_EQ(received(second), 0U);
}

TEST_F(Multicast, GivesEachOf64QpsOneCopy) {  // T-RVT-11
  std::vector<Qp*> members;
  for (int i = 0; i < 64; ++i) {
    members.push_back(&member(1));
    EXPECT_TRUE(hca_.attach_multicast(*members.back(), kMgid, kMlid)) << "again changes nothing";
  }
  arrive(1, Qpn{0x999}, false);
  for (const Qp* const qp : members) {
    EXPECT_EQ(received(*qp), 1U);
  }
}

/// A group is an MGID with one MLID; several groups may share an MLID (R-RVT-21).
TEST_F(Multicast, KnowsAGroupByItsMgidUnderOneMlid) {  // T-RVT-11
  Qp& first = member(1);
  const Gid other_mgid{0xFF12'4000'0000'0000, Guid{2}};
  const auto other_mlid = hca_.attach_multicast(first, kMgid, Lid{0xC002});
  ASSERT_FALSE(other_mlid);
  EXPECT_EQ(other_mlid.error().code, ErrorCode::InvalidArgument);
  EXPECT_TRUE(hca_.attach_multicast(first, other_mgid, kMlid));
  arrive(1, Qpn{0x999}, false);
  EXPECT_EQ(received(first), 1U) << "of the one group, not of both";
  EXPECT_TRUE(hca_.detach_multicast(first, other_mgid, kMlid));
  EXPECT_FALSE(hca_.detach_multicast(first, other_mgid, kMlid));
}

TEST_F(Multicast, RefusesMoreGroupsAndMembersThanTheDeviceHas) {  // T-RVT-11
  HcaConfiguration configuration;
  configuration.limits.max_mcast_groups = 1;
  configuration.limits.max_mcast_qps_per_group = 1;
  Hca small{configuration, events_};
  QpInit init;
  init.type = QpType::Ud;
  init.pd = *small.allocate_pd();
  init.send_cq = init.recv_cq = *small.create_cq(4);
  Qp& one = **small.create_qp(init);
  Qp& two = **small.create_qp(init);
  EXPECT_TRUE(small.attach_multicast(one, kMgid, kMlid));
  const Gid other_mgid{0xFF12'4000'0000'0000, Guid{2}};
  for (const auto& refused : {small.attach_multicast(two, kMgid, kMlid),
                              small.attach_multicast(one, other_mgid, kMlid)}) {
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::OutOfMemory);
  }
}

TEST_F(Multicast, FollowsAMemberToItsNewPort) {
  Qp& member = this->member(1);
  move_to(member, 2);
  arrive(1, Qpn{0x999}, false);
  EXPECT_EQ(received(member), 0U);
  arrive(2, Qpn{0x999}, false);
  EXPECT_EQ(received(member), 1U);
}

TEST_F(Multicast, GivesTheSenderNoCopyButWhoHasItsNumberElsewhere) {
  Qp& sender = member(1);
  Qp& other = member(1);
  arrive(1, sender.number(), true);
  EXPECT_EQ(received(sender), 0U);
  EXPECT_EQ(received(other), 1U);
  arrive(1, sender.number(), false);  // another HCA's QP with the same number
  EXPECT_EQ(received(sender), 1U);
}

}  // namespace
}  // namespace weft::hca
