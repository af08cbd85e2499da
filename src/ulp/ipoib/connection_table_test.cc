#include "ulp/ipoib/connection_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <optional>
#include <tuple>

namespace weft::ipoib {
namespace {

using Kind = ConnectionAction::Kind;
using Outcome = ConnectionTable::Outcome;
using wire::IpoibFlag;

Instant at(std::int64_t seconds) { return Instant{Duration::seconds(seconds)}; }

wire::IpoibHardwareAddress neighbor_of(std::uint32_t number,
                                       Flags<IpoibFlag> flags = IpoibFlag::ReliableConnected) {
  return {
      .flags = flags, .qpn = Qpn{number},
           .gid = Gid{kDefaultGidPrefix, Guid{number}}
  };
}

auto data_of(std::uint32_t receive_mtu) {
  return wire::pack(ConnectionData{.qpn = Qpn{1}, .receive_mtu = receive_mtu});
}

TEST(IpoibConnections, ListenOnTheServiceIdOfTheRfc) {  // R-IPOIB-15
  EXPECT_EQ(service_id_of(Qpn{0x123456}), 0x1000'0000'0012'3456U);
}

TEST(IpoibConnections, AreMadeToNeighborsThatOfferThem) {  // R-IPOIB-14
  ConnectionTable reliable{ConnectedMode::Reliable, Qpn{0x55}};
  EXPECT_EQ(reliable.send(neighbor_of(1, {}), {}, {}), Outcome::Datagram);
  EXPECT_EQ(reliable.send(neighbor_of(1, IpoibFlag::UnreliableConnected), {}, {}),
            Outcome::Datagram);
  EXPECT_EQ(reliable.send(neighbor_of(1), {}, {}), Outcome::Taken);
  const auto connect = reliable.poll_action();
  ASSERT_TRUE(connect);
  EXPECT_EQ(connect->kind, Kind::Connect);
  EXPECT_EQ(connect->service_id, service_id_of(Qpn{1}));
  EXPECT_EQ(connect->data, (ConnectionData{.qpn = Qpn{0x55}, .receive_mtu = 65'524}));
  ConnectionTable unreliable{ConnectedMode::Unreliable, Qpn{0x55}};
  EXPECT_EQ(unreliable.send(neighbor_of(1, IpoibFlag::UnreliableConnected), {}, {}),
            Outcome::Taken);
  ConnectionTable none{ConnectedMode::None, Qpn{0x55}};
  EXPECT_EQ(none.send(neighbor_of(1), {}, {}), Outcome::Datagram);
}

TEST(IpoibConnections, AreOfTheTypeThatBothOffer) {  // R-IPOIB-14, RFC 4755 §3.1, §3.2
  using enum ConnectedMode;
  using verbs::QpType;
  const Flags<IpoibFlag> rc{IpoibFlag::ReliableConnected};
  const Flags<IpoibFlag> uc{IpoibFlag::UnreliableConnected};
  EXPECT_EQ(flags_of(Both), rc | uc);
  constexpr std::optional<QpType> kNone;
  for (const auto& [mode, other, type] :
       std::initializer_list<std::tuple<ConnectedMode, Flags<IpoibFlag>, std::optional<QpType>>>{
           {Both,       {},      kNone     },
           {Both,       rc,      QpType::Rc},
           {Both,       uc,      QpType::Uc},
           {Both,       rc | uc, QpType::Rc},
           {Reliable,   rc | uc, QpType::Rc},
           {Reliable,   uc,      kNone     },
           {Unreliable, rc | uc, QpType::Uc},
           {Unreliable, rc,      kNone     },
           {None,       rc | uc, kNone     }
  }) {
    ConnectionTable table{mode, Qpn{0x55}};
    const Outcome outcome = table.send(neighbor_of(1, other), {}, {});
    const auto connect = table.poll_action();
    ASSERT_EQ(connect.has_value(), type.has_value());
    EXPECT_EQ(outcome, type ? Outcome::Taken : Outcome::Datagram);
    EXPECT_EQ(connect ? std::optional{connect->type} : kNone, type);
  }
}

TEST(IpoibConnections, HoldPacketsUntilTheyAreThere) {  // R-IPOIB-14
  ConnectionTable table{ConnectedMode::Reliable, Qpn{1}, {.packets_of_connection = 2}};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(table.send(neighbor_of(1), Packet(100), {}), Outcome::Taken);
  }
  EXPECT_EQ(table.counters().dropped, 1U);
  const auto connect = table.poll_action();
  table.established(connect->id, data_of(65'524), {});
  for (int i = 0; i < 2; ++i) {
    const auto sent = table.poll_action();
    ASSERT_TRUE(sent);
    EXPECT_EQ(sent->kind, Kind::Send);
    EXPECT_EQ(sent->id, connect->id);
  }
  EXPECT_FALSE(table.poll_action());
}

TEST(IpoibConnections, TakeNoMoreThanThePeerReceives) {  // R-IPOIB-16
  ConnectionTable table{ConnectedMode::Reliable, Qpn{1}};
  EXPECT_EQ(table.send(neighbor_of(1), Packet(10), {}), Outcome::Taken);
  table.established(table.poll_action()->id, data_of(4096), {});
  EXPECT_EQ(table.mtu_to(neighbor_of(1)), 4092U);
  EXPECT_EQ(table.send(neighbor_of(1), Packet(4096), {}), Outcome::Taken);
  EXPECT_EQ(table.send(neighbor_of(1), Packet(4097), {}), Outcome::TooBig);
}

TEST(IpoibConnections, TakeAtOnceWhatNothingWaitsBefore) {
  ConnectionTable table{ConnectedMode::Reliable, Qpn{1}};
  EXPECT_FALSE(table.send_at_once(neighbor_of(1), 10, {})) << "nobody has asked for it";
  EXPECT_EQ(table.send(neighbor_of(1), Packet(10), {}), Outcome::Taken);
  const auto connect = table.poll_action();
  EXPECT_FALSE(table.send_at_once(neighbor_of(1), 10, {})) << "it is being made";
  table.established(connect->id, data_of(4096), {});
  EXPECT_FALSE(table.send_at_once(neighbor_of(1), 10, {})) << "a packet waits";
  EXPECT_TRUE(table.poll_action());
  EXPECT_EQ(table.send_at_once(neighbor_of(1), 4096, at(250)), connect->id);
  EXPECT_FALSE(table.send_at_once(neighbor_of(1), 4097, at(250)));
  table.handle_timeout(at(549));
  EXPECT_FALSE(table.poll_action()) << "it was in use at 250 s";
  table.handle_timeout(at(551));
  EXPECT_EQ(table.poll_action()->kind, Kind::Disconnect);
}

TEST(IpoibConnections, OfTwoEndsAtTheSameTimeAreTwo) {  // R-IPOIB-17
  ConnectionTable a{ConnectedMode::Reliable, Qpn{1}};
  ConnectionTable b{ConnectedMode::Reliable, Qpn{2}};
  EXPECT_EQ(a.send(neighbor_of(2), Packet(10), {}), Outcome::Taken);
  EXPECT_EQ(b.send(neighbor_of(1), Packet(20), {}), Outcome::Taken);
  const auto of_a = a.poll_action();
  const auto of_b = b.poll_action();
  const auto answer_b = b.accept(100, wire::pack(of_a->data));
  const auto answer_a = a.accept(200, wire::pack(of_b->data));
  ASSERT_TRUE(answer_a && answer_b);
  a.established(of_a->id, wire::pack(*answer_b), {});
  b.established(of_b->id, wire::pack(*answer_a), {});
  EXPECT_EQ(a.poll_action()->packet.size(), 10U);
  EXPECT_EQ(b.poll_action()->packet.size(), 20U);
  EXPECT_EQ(a.inbound(), 1U);
  EXPECT_EQ(b.outbound(), 1U);
}

TEST(IpoibConnections, EndWhenIdle) {  // R-IPOIB-18
  ConnectionTable table{ConnectedMode::Reliable, Qpn{1}};
  EXPECT_EQ(table.send(neighbor_of(1), Packet(10), at(0)), Outcome::Taken);
  table.established(table.poll_action()->id, data_of(65'524), at(0));
  ASSERT_TRUE(table.poll_action());
  EXPECT_EQ(table.send(neighbor_of(1), Packet(10), at(100)), Outcome::Taken);
  ASSERT_TRUE(table.poll_action());
  EXPECT_EQ(table.deadline(), at(400));
  table.handle_timeout(at(399));
  EXPECT_FALSE(table.poll_action());
  table.handle_timeout(at(400));
  EXPECT_EQ(table.poll_action()->kind, Kind::Disconnect);
  EXPECT_EQ(table.outbound(), 0U);
}

TEST(IpoibConnections, GiveWayToDatagramsWhileTheyCannotBeHad) {  // R-IPOIB-14
  ConnectionTable table{ConnectedMode::Reliable, Qpn{1}};
  EXPECT_EQ(table.send(neighbor_of(1), Packet(10), at(0)), Outcome::Taken);
  table.refused(table.poll_action()->id, at(0));
  EXPECT_EQ(table.counters().dropped, 1U);
  EXPECT_EQ(table.send(neighbor_of(1), Packet(10), at(1)), Outcome::Datagram);
  table.handle_timeout(at(10));
  EXPECT_EQ(table.send(neighbor_of(1), Packet(10), at(10)), Outcome::Taken);
  EXPECT_EQ(table.poll_action()->kind, Kind::Connect);
}

TEST(IpoibConnections, WithAPeerThatTakesNothingAreEnded) {
  ConnectionTable table{ConnectedMode::Reliable, Qpn{1}};
  EXPECT_EQ(table.send(neighbor_of(1), Packet(10), {}), Outcome::Taken);
  table.established(table.poll_action()->id, data_of(4), {});
  EXPECT_EQ(table.poll_action()->kind, Kind::Disconnect);
  EXPECT_FALSE(table.mtu_to(neighbor_of(1)));
  EXPECT_THAT(table.accept(1, data_of(4)).error().reason, ::testing::HasSubstr("takes no packet"));
  EXPECT_FALSE(table.accept(1, {}));
}

TEST(IpoibConnections, HavePartialChecksumsWhereBothEndsTakeThem) {  // R-IPOIB-31
  for (const bool own : {true, false}) {
    for (const bool peer : {true, false}) {
      ConnectionTable table{ConnectedMode::Reliable, Qpn{1}, {.partial_checksums = own}};
      const auto said = private_data_of({.qpn = Qpn{2}, .receive_mtu = 65'524}, peer);
      EXPECT_EQ(table.send(neighbor_of(1), Packet(10), {}), Outcome::Taken);
      EXPECT_FALSE(table.sends_partial_checksums(neighbor_of(1))) << "it is being made";
      table.established(table.poll_action()->id, said, {});
      EXPECT_EQ(table.sends_partial_checksums(neighbor_of(1)), own && peer);
      EXPECT_FALSE(table.sends_partial_checksums(neighbor_of(2)));
      EXPECT_TRUE(table.accept(100, said));
      EXPECT_EQ(table.receives_partial_checksums(100), own && peer);
      table.closed(100);
      EXPECT_FALSE(table.receives_partial_checksums(100));
    }
  }
}

TEST(IpoibConnections, AreBounded) {
  ConnectionTable table{ConnectedMode::Reliable, Qpn{1}, {.connections = 1}};
  EXPECT_EQ(table.send(neighbor_of(1), Packet(10), {}), Outcome::Taken);
  EXPECT_EQ(table.send(neighbor_of(2), Packet(10), {}), Outcome::Datagram);
  EXPECT_TRUE(table.accept(1, data_of(100)));
  EXPECT_EQ(table.accept(2, data_of(100)).error().code, ErrorCode::OutOfMemory);
  table.closed(1);
  EXPECT_TRUE(table.accept(2, data_of(100)));
}

}  // namespace
}  // namespace weft::ipoib
