// T-CM-8: QPs that CM connects, gives an alternate path by LAP and APR, and that migrate to it.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "cm/testing/network.h"
#include "hca/testing/loopback_pair.h"

namespace weft::sim {
namespace {

using hca::MigrationState;
using hca::QpState;
using hca::testing::lid_of;
using hca::testing::LoopbackPair;
using hca::testing::Side;

constexpr cm::PortKey kSecondPort{2};

/// Two hosts with two ports each, known to CM and to the HCA alike; the QPs have every attribute
/// from CM.
class CmPathMigration : public ::testing::Test {
 protected:
  CmPathMigration() {
    for (const int side : {0, 1}) {
      describe(side);
    }
  }

  [[nodiscard]] cm::TestHost& host(int side) { return side == 0 ? net_.a() : net_.b(); }
  [[nodiscard]] cm::CmId id(int side) const { return side == 0 ? a_ : b_; }
  [[nodiscard]] static Gid second_gid(int side) {
    return {kDefaultGidPrefix, Guid{0xCC00U + static_cast<unsigned>(side)}};
  }

  void describe(int side) {
    cm::PortAddress first = host(side).address();
    first.state = hca::PortState::Active;
    cm::PortAddress second = first;
    second.number = PortNumber{2};
    second.lid = lid_of(side, 2);
    second.gids = {second_gid(side)};
    pair_.side(side).hca.set_port(PortNumber{1}, first);
    pair_.side(side).hca.set_port(PortNumber{2}, second);
    ASSERT_TRUE(
        host(side).cm.add_port(kSecondPort, second_gsi_[static_cast<std::size_t>(side)], second));
  }

  /// Modifies a side's QP by what CM says for the transition.
  void modify(int side, QpState target) {
    const auto told = host(side).cm.init_qp_attributes(id(side), target);
    ASSERT_TRUE(told) << told.error().reason;
    const auto modified = pair_.side(side).qp->modify(told->attributes, told->mask);
    ASSERT_TRUE(modified) << modified.error().reason;
  }

  void connect() {
    cm::RequestParameters request = net_.request();
    request.qpn = pair_.a().qp->number();
    cm::ReplyParameters reply = cm::TestCmNetwork::reply();
    reply.qpn = pair_.b().qp->number();
    ASSERT_NE(net_.b().listener(request.service_id), cm::CmId{});
    a_ = net_.a().make();
    ASSERT_TRUE(net_.a().cm.send_req(a_, request, net_.now));
    net_.run_shortly();
    b_ = net_.b().newest;
    ASSERT_TRUE(net_.b().cm.send_rep(b_, reply, net_.now));
    net_.run_shortly();
    ASSERT_TRUE(net_.a().cm.send_rtu(a_, {}, net_.now));
    net_.run_shortly();
    for (const int side : {0, 1}) {
      for (const QpState target : {QpState::Init, QpState::Rtr, QpState::Rts}) {
        ASSERT_NO_FATAL_FAILURE(modify(side, target));
      }
    }
  }

  /// From the first side's second port to the other's.
  [[nodiscard]] static cm::Path alternate() {
    return {.sgid = second_gid(0),
            .dgid = second_gid(1),
            .slid = lid_of(0, 2),
            .dlid = lid_of(1, 2),
            .packet_life_time = 9};
  }

  /// LAP and APR; both QPs load the path and rearm, as CM says.
  void load_alternate() {
    ASSERT_TRUE(net_.a().cm.send_lap(a_, alternate(), {}, net_.now));
    net_.run_shortly();
    ASSERT_TRUE(net_.b().cm.send_apr(b_, {}, net_.now));
    net_.run_shortly();
    for (const int side : {0, 1}) {
      ASSERT_NO_FATAL_FAILURE(modify(side, QpState::Rts));
      EXPECT_EQ(migration(side), MigrationState::Rearm);
    }
  }

  /// A message from `from` to the other side, which has to arrive.
  void send(int from) {
    Side& source = pair_.side(from);
    Side& target = pair_.side(1 - from);
    const std::array into{target.sge(0x1000, 512)};
    ASSERT_TRUE(target.qp->post_recv({.wr_id = 1, .sges = into}));
    const std::array sges{source.sge(0, 512)};
    hca::SendWr wr;
    wr.flags = hca::Send::Signaled;
    wr.sges = sges;
    ASSERT_TRUE(source.qp->post_send(wr));
    ASSERT_TRUE(pair_.run());
    const auto completions = pair_.poll(*source.send_cq);
    ASSERT_EQ(completions.size(), 1U);
    EXPECT_EQ(completions[0].status, hca::WcStatus::Success);
    EXPECT_EQ(pair_.poll(*target.recv_cq).size(), 1U);
  }

  [[nodiscard]] MigrationState migration(int side) {
    return pair_.side(side).qp->query().migration;
  }
  /// Packets that left by a side's port, as PortXmitPkts counts them.
  [[nodiscard]] std::ptrdiff_t sent_by(int side, std::uint8_t port) const {
    return std::ranges::count_if(
        pair_.sent, [&](const auto& packet) { return packet.header.slid == lid_of(side, port); });
  }

  LoopbackPair pair_{
      {.retry_count = 2, .port_count = 2}
  };
  std::array<mad::ManagementInterface, 2> second_gsi_{
      mad::ManagementInterface{mad::InterfaceKind::Gsi, {}},
      mad::ManagementInterface{mad::InterfaceKind::Gsi, {}}
  };
  cm::TestCmNetwork net_;
  cm::CmId a_{};
  cm::CmId b_{};
};

TEST_F(CmPathMigration, TakesThePathThatLapAndAprHaveLoaded) {
  ASSERT_NO_FATAL_FAILURE(connect());
  ASSERT_NO_FATAL_FAILURE(send(0));
  ASSERT_NO_FATAL_FAILURE(load_alternate());
  ASSERT_NO_FATAL_FAILURE(send(0));
  ASSERT_NO_FATAL_FAILURE(send(1));
  EXPECT_EQ(migration(0), MigrationState::Armed);
  EXPECT_EQ(migration(1), MigrationState::Armed);
  EXPECT_EQ(sent_by(0, 2) + sent_by(1, 2), 0) << "all goes by the first ports before";

  hca::QpAttributes forced;
  forced.migration = MigrationState::Migrated;
  ASSERT_TRUE(pair_.a().qp->modify(forced, hca::QpAttribute::PathMigrationState));
  pair_.sent.clear();
  ASSERT_NO_FATAL_FAILURE(send(0));
  ASSERT_NO_FATAL_FAILURE(send(1));
  EXPECT_GE(sent_by(0, 2), 2) << "a's message, and its answer to b's";
  EXPECT_GE(sent_by(1, 2), 2);
  EXPECT_EQ(sent_by(0, 1) + sent_by(1, 1), 0) << "and by the second ones after";
  EXPECT_EQ(pair_.b().events.count(hca::AsyncEventType::PathMigrated), 1U);
}

TEST_F(CmPathMigration, StaysWhereItIsWhenThePeerRefuses) {
  ASSERT_NO_FATAL_FAILURE(connect());
  ASSERT_TRUE(net_.a().cm.send_lap(a_, alternate(), {}, net_.now));
  net_.run_shortly();
  ASSERT_TRUE(net_.b().cm.send_apr(b_, {.status = wire::AprStatus::Rejected}, net_.now));
  net_.run_shortly();
  const auto told = net_.a().cm.init_qp_attributes(a_, QpState::Rts);
  ASSERT_TRUE(told) << told.error().reason;
  EXPECT_FALSE(told->mask.has(hca::QpAttribute::AlternatePath));
  ASSERT_NO_FATAL_FAILURE(send(0));
  EXPECT_EQ(migration(0), MigrationState::Migrated) << "not armed";
  EXPECT_EQ(sent_by(0, 2), 0);
}

}  // namespace
}  // namespace weft::sim
