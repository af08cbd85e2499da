#include <gtest/gtest.h>

#include <array>

#include "hca/testing/loopback_pair.h"

namespace weft::hca {
namespace {

using testing::InFlightPacket;
using testing::lid_of;
using testing::LoopbackPair;
using testing::PairOptions;
using testing::Side;

using A = QpAttribute;

/// Two HCAs with two ports each: connected through the first ports, with the second as alternate.
class PathMigration : public ::testing::TestWithParam<QpType> {
 protected:
  explicit PathMigration(QpType type = QpType::Rc)
      : pair_({.type = type, .retry_count = 2, .port_count = 2}) {
    pair_.connect();
  }

  void load(int side) { load(side, lid_of(1 - side, 2)); }
  void load(int side, Lid dlid) {
    QpAttributes to;
    to.alternate_address.dlid = dlid;
    to.alternate_port = PortNumber{2};
    to.alternate_timeout = TimeoutExponent{15};
    modify(side, to, A::AlternatePath);
  }
  void ask(int side, MigrationState state) {
    QpAttributes to;
    to.migration = state;
    modify(side, to, A::PathMigrationState);
  }
  void modify(int side, const QpAttributes& to, QpAttributeMask mask) {
    const auto modified = pair_.side(side).qp->modify(to, mask);
    ASSERT_TRUE(modified) << modified.error().reason;
  }
  [[nodiscard]] ErrorCode refusal(MigrationState state) {
    QpAttributes to;
    to.migration = state;
    const auto modified = pair_.a().qp->modify(to, A::PathMigrationState);
    return modified ? ErrorCode::Exists : modified.error().code;
  }

  /// Both ends load and rearm; a message in each direction makes both ARMED.
  void arm() {
    for (const int side : {0, 1}) {
      load(side);
      ask(side, MigrationState::Rearm);
    }
    exchange();
    EXPECT_EQ(state(0), MigrationState::Armed);
    EXPECT_EQ(state(1), MigrationState::Armed);
  }

  /// Sends a message in each direction and expects both to arrive.
  void exchange() {
    for (const int from : {0, 1}) {
      EXPECT_EQ(send(from), WcStatus::Success);
      EXPECT_EQ(pair_.poll(*pair_.side(1 - from).recv_cq).size(), 1U);
    }
  }
  WcStatus send(int from) {
    Side& source = pair_.side(from);
    Side& target = pair_.side(1 - from);
    const std::array into{target.sge(0x1000, 512)};
    EXPECT_TRUE(target.qp->post_recv({.wr_id = 1, .sges = into}));
    const std::array sges{source.sge(0, 512)};
    SendWr wr;
    wr.flags = Send::Signaled;
    wr.sges = sges;
    EXPECT_TRUE(source.qp->post_send(wr));
    EXPECT_TRUE(pair_.run());
    const auto completions = pair_.poll(*source.send_cq);
    EXPECT_EQ(completions.size(), 1U);
    return completions.empty() ? WcStatus::GeneralError : completions[0].status;
  }

  [[nodiscard]] MigrationState state(int side) { return pair_.side(side).qp->query().migration; }
  [[nodiscard]] std::size_t count(int side, AsyncEventType type) {
    return pair_.side(side).events.count(type);
  }
  /// Drops all packets between the first ports from now on.
  void cut_first_link() {
    pair_.filter = [](const InFlightPacket& in_flight_packet) {
      return in_flight_packet.header.dlid.value() > 16;
    };
  }

  LoopbackPair pair_;
};

class ConnectedPathMigration : public PathMigration {
 protected:
  ConnectedPathMigration() : PathMigration(GetParam()) {}
};
INSTANTIATE_TEST_SUITE_P(Types, ConnectedPathMigration, ::testing::Values(QpType::Rc, QpType::Uc),
                         [](const auto& test) { return test.param == QpType::Rc ? "Rc" : "Uc"; });

TEST_P(ConnectedPathMigration, IsArmedOnceBothEndsHaveRearmed) {
  load(0);
  load(1);
  exchange();
  EXPECT_EQ(state(0), MigrationState::Migrated);
  for (const InFlightPacket& in_flight_packet : pair_.sent) {
    EXPECT_TRUE(in_flight_packet.header.migrated);
  }
  ask(0, MigrationState::Rearm);
  exchange();
  EXPECT_EQ(state(0), MigrationState::Rearm) << "the other end is not ready";
  EXPECT_EQ(state(1), MigrationState::Migrated);
  ask(1, MigrationState::Rearm);
  exchange();
  EXPECT_EQ(state(0), MigrationState::Armed);
  EXPECT_EQ(state(1), MigrationState::Armed);
  EXPECT_FALSE(pair_.sent.back().header.migrated);
  EXPECT_EQ(count(0, AsyncEventType::PathMigrated), 0U);
}

TEST_P(ConnectedPathMigration, FollowsAPeerThatMigrates) {
  arm();
  const QpAttributes before = pair_.a().qp->query();
  ask(0, MigrationState::Migrated);
  pair_.sent.clear();
  EXPECT_EQ(send(0), WcStatus::Success);
  EXPECT_EQ(pair_.sent.front().header.dlid, lid_of(1, 2));
  EXPECT_EQ(pair_.sent.front().header.slid, lid_of(0, 2));
  EXPECT_TRUE(pair_.sent.front().header.migrated);
  for (const int side : {0, 1}) {
    EXPECT_EQ(state(side), MigrationState::Migrated);
    EXPECT_EQ(count(side, AsyncEventType::PathMigrated), 1U);
    EXPECT_EQ(pair_.side(side).qp->port(), PortNumber{2});
  }
  pair_.poll(*pair_.b().recv_cq);
  exchange();
  const QpAttributes after = pair_.a().qp->query();
  EXPECT_EQ(after.address, before.alternate_address);
  EXPECT_EQ(after.alternate_address, before.address);
  EXPECT_EQ(after.alternate_port, PortNumber{1});
  EXPECT_EQ(after.timeout, TimeoutExponent{15});
  EXPECT_EQ(pair_.sent.back().header.dlid.value() & 16, 16U);
}

TEST_F(PathMigration, OutlivesTheDeathOfThePrimaryPath) {
  arm();
  cut_first_link();
  EXPECT_EQ(send(0), WcStatus::Success);
  for (const int side : {0, 1}) {
    EXPECT_EQ(state(side), MigrationState::Migrated);
    EXPECT_EQ(count(side, AsyncEventType::PathMigrated), 1U);
  }
  pair_.poll(*pair_.b().recv_cq);
  exchange();
  EXPECT_EQ(count(0, AsyncEventType::PathMigrated), 1U);
}

/// Both ends detect the failure independently, before either hears from the other.
TEST_F(PathMigration, OfBothEndsAtOnceIsOne) {
  arm();
  cut_first_link();
  for (const int from : {0, 1}) {
    Side& source = pair_.side(from);
    const std::array into{source.sge(0x1000, 64)};
    ASSERT_TRUE(source.qp->post_recv({.wr_id = 1, .sges = into}));
    const std::array sges{source.sge(0, 64)};
    SendWr wr;
    wr.flags = Send::Signaled;
    wr.sges = sges;
    ASSERT_TRUE(source.qp->post_send(wr));
  }
  ASSERT_TRUE(pair_.run());
  for (const int side : {0, 1}) {
    EXPECT_EQ(pair_.poll(*pair_.side(side).send_cq).size(), 1U);
    EXPECT_EQ(pair_.poll(*pair_.side(side).recv_cq).size(), 1U);
    EXPECT_EQ(count(side, AsyncEventType::PathMigrated), 1U);
  }
}

/// The end that follows had used up its retries on the primary path.
TEST_F(PathMigration, GivesBothEndsTheirRetriesAnew) {
  arm();
  cut_first_link();
  const std::array into{pair_.a().sge(0x1000, 64)};
  ASSERT_TRUE(pair_.a().qp->post_recv({.wr_id = 1, .sges = into}));
  const std::array sges{pair_.b().sge(0, 64)};
  SendWr wr;
  wr.flags = Send::Signaled;
  wr.sges = sges;
  ASSERT_TRUE(pair_.b().qp->post_send(wr));
  for (int expiries = 0; expiries <= 2; ++expiries) {  // the third is its last retry
    pair_.collect();
    ASSERT_EQ(state(1), MigrationState::Armed);
    if (expiries != 2) {
      ASSERT_TRUE(pair_.fire_next_timer());
    }
  }
  ask(0, MigrationState::Migrated);
  // The first packet on the new path makes b migrate; b's first packet on it is lost.
  bool is_lost = false;
  pair_.filter = [&](const InFlightPacket& in_flight_packet) {
    const bool passes = in_flight_packet.to == 1 || is_lost;
    is_lost = is_lost || in_flight_packet.to == 0;
    return passes && in_flight_packet.header.dlid.value() > 16;
  };
  EXPECT_EQ(send(0), WcStatus::Success);
  const auto completions = pair_.poll(*pair_.b().send_cq);
  ASSERT_EQ(completions.size(), 1U);
  EXPECT_EQ(completions[0].status, WcStatus::Success);
}

TEST_F(PathMigration, HappensOnceForEachRearming) {
  arm();
  ask(0, MigrationState::Migrated);
  EXPECT_EQ(send(0), WcStatus::Success);
  pair_.poll(*pair_.b().recv_cq);
  // The link between the second ports fails. Neither end has rearmed, so the connection ends.
  pair_.filter = [](const InFlightPacket& in_flight_packet) {
    return in_flight_packet.header.dlid.value() < 16;
  };
  EXPECT_EQ(send(0), WcStatus::RetryExceeded);
}

TEST_F(PathMigration, GoesBackAfterRearming) {
  arm();
  cut_first_link();
  EXPECT_EQ(send(0), WcStatus::Success);
  pair_.poll(*pair_.b().recv_cq);
  ask(0, MigrationState::Rearm);
  ask(1, MigrationState::Rearm);
  exchange();
  EXPECT_EQ(state(0), MigrationState::Armed);
  pair_.filter = [](const InFlightPacket& in_flight_packet) {
    return in_flight_packet.header.dlid.value() < 16;
  };
  EXPECT_EQ(send(1), WcStatus::Success);
  EXPECT_EQ(pair_.a().qp->port(), PortNumber{1});
  EXPECT_EQ(pair_.b().qp->port(), PortNumber{1});
}

/// An end in REARM has announced by its packets that it is ready.
TEST_F(PathMigration, IsProcessedInRearm) {
  load(0);
  load(1);
  ask(0, MigrationState::Rearm);
  ask(1, MigrationState::Rearm);
  // a's first message reaches b; everything that b sends through its first port is lost.
  pair_.filter = [](const InFlightPacket& in_flight_packet) {
    return in_flight_packet.to == 1 || in_flight_packet.header.dlid.value() > 16;
  };
  const std::array sges{pair_.b().sge(0, 64)};
  const std::array into{pair_.b().sge(64, 64)};
  ASSERT_TRUE(pair_.b().qp->post_recv({.wr_id = 1, .sges = into}));
  SendWr wr;
  wr.flags = Send::Signaled;
  const std::array own{pair_.a().sge(0, 64)};
  wr.sges = own;
  ASSERT_TRUE(pair_.a().qp->post_send(wr));
  pair_.collect();
  ASSERT_TRUE(pair_.deliver_one());
  EXPECT_EQ(state(1), MigrationState::Armed);
  EXPECT_EQ(state(0), MigrationState::Rearm);
  ask(1, MigrationState::Migrated);
  wr.sges = sges;
  const std::array answer{pair_.a().sge(64, 64)};
  ASSERT_TRUE(pair_.a().qp->post_recv({.wr_id = 2, .sges = answer}));
  ASSERT_TRUE(pair_.b().qp->post_send(wr));
  ASSERT_TRUE(pair_.run());
  EXPECT_EQ(pair_.poll(*pair_.a().send_cq).size(), 1U);
  EXPECT_EQ(pair_.poll(*pair_.b().send_cq).size(), 1U);
  EXPECT_EQ(state(0), MigrationState::Migrated);
  EXPECT_EQ(pair_.a().qp->port(), PortNumber{2});
}

TEST_F(PathMigration, ToAPathThatIsNotLoadedIsRefused) {
  load(0, lid_of(1, 2));
  load(1, Lid{99});  // which is not the LID of a's second port
  ask(0, MigrationState::Rearm);
  ask(1, MigrationState::Rearm);
  exchange();
  ask(0, MigrationState::Migrated);
  EXPECT_EQ(send(0), WcStatus::RetryExceeded);
  EXPECT_GE(count(1, AsyncEventType::PathMigrationError), 1U);
  EXPECT_EQ(state(1), MigrationState::Armed);
}

TEST_F(PathMigration, WithoutAKeyOfTheAlternatePathFails) {
  arm();
  PortAttributes second = pair_.a().hca.port(PortNumber{2});
  second.pkeys = {PKey{}};
  pair_.a().hca.set_port(PortNumber{2}, second);
  cut_first_link();
  EXPECT_EQ(send(0), WcStatus::RetryExceeded);
  EXPECT_EQ(count(0, AsyncEventType::PathMigrationError), 1U);
}

TEST_F(PathMigration, RefusesWhatAProgramMayNotAsk) {
  EXPECT_EQ(refusal(MigrationState::Rearm), ErrorCode::InvalidArgument) << "no path is loaded";
  EXPECT_EQ(refusal(MigrationState::Migrated), ErrorCode::Exists) << "it is that";
  load(0);
  EXPECT_EQ(refusal(MigrationState::Armed), ErrorCode::InvalidArgument);
  EXPECT_EQ(refusal(MigrationState::Rearm), ErrorCode::Exists);
  EXPECT_EQ(refusal(MigrationState::Migrated), ErrorCode::InvalidArgument)
      << "the peer is not ready";
  QpAttributes to;
  to.alternate_port = PortNumber{3};
  EXPECT_FALSE(pair_.a().qp->modify(to, A::AlternatePath));
  to.alternate_port = PortNumber{2};
  to.alternate_pkey_index = 7;
  EXPECT_FALSE(pair_.a().qp->modify(to, A::AlternatePath));
}

/// LMC: two LIDs per port, which differ only in their path bits.
TEST(PathMigrationByLid, ChangesThePathBits) {
  LoopbackPair pair{{.retry_count = 2}};
  for (const int side : {0, 1}) {
    PortAttributes port = pair.side(side).hca.port(PortNumber{1});
    port.lid = Lid{static_cast<std::uint32_t>(2 + 2 * side)};
    port.lmc = 1;
    pair.side(side).hca.set_port(PortNumber{1}, port);
  }
  pair.connect();
  const auto modify = [&](int side, QpAttributes to, QpAttributeMask mask) {
    const auto modified = pair.side(side).qp->modify(to, mask);
    ASSERT_TRUE(modified) << modified.error().reason;
  };
  QpAttributes to;
  to.state = QpState::Sqd;
  for (const int side : {0, 1}) {
    modify(side, to, A::State);
    QpAttributes paths;
    paths.address.dlid = Lid{static_cast<std::uint32_t>(4 - 2 * side)};
    paths.address.port = paths.alternate_port = PortNumber{1};
    paths.alternate_address.dlid = Lid{static_cast<std::uint32_t>(5 - 2 * side)};
    paths.alternate_address.source_path_bits = 1;
    paths.migration = MigrationState::Rearm;
    modify(side, paths,
           QpAttributeMask{A::AddressVector} | A::AlternatePath | A::PathMigrationState);
  }
  to.state = QpState::Rts;
  modify(0, to, A::State);
  modify(1, to, A::State);
  const auto write = [&](int from) {
    Side& source = pair.side(from);
    const Side& target = pair.side(1 - from);
    const std::array sges{source.sge(0, 64)};
    SendWr wr;
    wr.opcode = WrOpcode::RdmaWrite;
    wr.flags = Send::Signaled;
    wr.sges = sges;
    wr.remote_address = target.address();
    wr.rkey = target.region->rkey;
    ASSERT_TRUE(source.qp->post_send(wr));
    ASSERT_TRUE(pair.run());
    const auto completions = pair.poll(*source.send_cq);
    ASSERT_EQ(completions.size(), 1U);
    EXPECT_EQ(completions[0].status, WcStatus::Success);
  };
  write(0);
  write(1);
  pair.filter = [](const InFlightPacket& in_flight_packet) {
    return in_flight_packet.header.dlid.value() % 2 == 1;
  };
  write(0);
  write(1);
  EXPECT_EQ(pair.sent.back().header.slid.value() % 2, 1U);
  EXPECT_EQ(pair.a().events.count(AsyncEventType::PathMigrated), 1U);
  EXPECT_EQ(pair.b().events.count(AsyncEventType::PathMigrated), 1U);
}

}  // namespace
}  // namespace weft::hca
