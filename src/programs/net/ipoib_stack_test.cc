#include "programs/net/ipoib_stack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/random.h"
#include "mad/testing/network.h"
#include "ulp/ipoib/testing_packets.h"
#include "wire/ipoib/mgid.h"

namespace weft::programs::net {
namespace {

using ipoib::testing::ip;
using ipoib::testing::make_packet;

constexpr Lid kSaLid{100};
constexpr QKey kLinkQKey{0xB1B};

struct End {
  explicit End(std::uint32_t index, const IpoibStackOptions& options = {},
               PKey partition = kDefaultPKey)
      : number(index), lid(index), pkey(partition), stack(own(index, options), port(), Instant{}) {}

  [[nodiscard]] static IpoibStackOptions own(std::uint32_t index, IpoibStackOptions options) {
    options.qpn = options.qpn == Qpn{} ? Qpn{0x100 + index} : options.qpn;
    options.addresses = {
        {IpAddress::v4(0x0A4D'0000 + index), 16},
        {IpAddress::v6(0xFD77'001B'0000'0000, index), 64}
    };
    return options;
  }

  [[nodiscard]] sa::LocalPort port(bool is_active = true) const {
    sa::LocalPort port;
    port.lid = lid;
    port.state = is_active ? verbs::PortState::Active : verbs::PortState::Down;
    port.sm_lid = sm_lid;
    port.gids = {gid()};
    port.pkeys = {pkey};
    return port;
  }

  [[nodiscard]] Gid gid() const { return {kDefaultGidPrefix, Guid{number}}; }

  std::uint32_t number;
  Lid lid;
  PKey pkey;
  Lid sm_lid{kSaLid};
  IpoibStack stack;
  std::vector<ipoib::Packet> received;
};

/// Interfaces on one link, whose groups and paths an SA serves.
class IpoibStackTest : public ::testing::Test {
 protected:
  IpoibStackTest() {
    EXPECT_TRUE(sa_.register_agent(
        mad::registration_of(wire::ManagementClass::SubnAdm,
                             {wire::MadMethod::Get, wire::MadMethod::Set, wire::MadMethod::Delete}),
        &server_));
    for (const std::uint32_t number : {1U, 2U, 3U}) {
      ends.push_back(std::make_unique<End>(number));
    }
    run(Duration::seconds(3));  // and nobody announces itself any more
  }

  void run(Duration span, Duration step = Duration::milliseconds(5)) {
    for (const Instant until = now + span; now < until; now = now + step) {
      for (int turn = 0; turn < 8; ++turn) {
        for (const auto& end : ends) {
          carry(*end);
        }
      }
    }
  }

  void carry(End& end) {
    end.stack.handle_timeout(now);
    while (const auto mad = end.stack.poll_mad(now)) {
      EXPECT_EQ(mad->address.lid, end.sm_lid);
      sa_.handle_mad({.lid = end.lid}, mad->bytes, now);
    }
    sa_.handle_timeout(now);
    while (const auto mad = sa_.poll_transmit(now)) {
      const auto to =
          std::ranges::find(ends, mad->address.lid, [](const auto& one) { return one->lid; });
      if (to != ends.end()) {
        (*to)->stack.handle_mad({.lid = (*to)->sm_lid}, mad->bytes, now);
      }
    }
    while (const auto datagram = end.stack.poll_datagram()) {
      deliver(end, *datagram);
    }
    while (auto packet = end.stack.poll_delivery()) {
      end.received.push_back(std::move(*packet));
    }
  }

  /// As the fabric would: to all ports whose QP is attached, or to the owner of the LID.
  void deliver(End& from, const mad::Datagram& datagram) {
    sent_keys.push_back(datagram.to.qkey);
    sent_to.push_back(datagram.to.lid);
    const Gid dgid = datagram.to.global ? datagram.to.global->dgid : Gid{};
    for (const auto& to : ends) {
      const bool is_for_it = datagram.to.lid.is_multicast()
                                 ? to.get() != &from && to->stack.attachments().contains(dgid)
                                 : to->lid == datagram.to.lid;
      if (!is_for_it) {
        continue;
      }
      mad::ReceivedDatagram received{
          .destination_qp = datagram.to.qp,
          .destination_gid = dgid,
          .source = {.lid = from.lid,
                     .qp = datagram.source_qp,
                     .qkey = datagram.to.qkey == kQKeyOfQp ? from.stack.qkey().value_or(QKey{})
                                                           : datagram.to.qkey,
                     .pkey = datagram.to.pkey},
          .payload = datagram.payload
      };
      if (datagram.to.global) {
        received.source.global = datagram.to.global;
        received.source.global->dgid = from.port().gids.front();
      }
      to->stack.handle_datagram(received, now);
    }
  }

  const mad::MadMessage* serve(mad::MadRequest& request) {
    constexpr std::size_t kHeaderBytes = wire::kSizeOf<wire::SaHeader>;
    const ByteSpan record = ByteSpan{request.message.mad}.subspan(kHeaderBytes);
    const auto answer = [&](const auto& packed) {
      copy_bytes(std::span{request.message.mad}.subspan(kHeaderBytes), packed);
      return &request.message;
    };
    if (request.message.header().method == wire::MadMethod::Get) {
      auto path = *wire::parse<wire::PathRecord>(record);
      queries.push_back(path.dgid);
      path.dlid = ends.at(path.dgid.interface_id().value() - 1)->lid;
      path.slid = request.source.lid;
      return answer(wire::pack(path));
    }
    auto member = *wire::parse<wire::McMemberRecord>(record);
    if (request.message.header().method == wire::MadMethod::Set) {
      joins.emplace_back(member.mgid, member.join_state);
    } else {
      leaves.emplace_back(member.mgid, member.join_state);
    }
    member.mlid =
        Lid{first_mlid + (std::to_integer<std::uint32_t>(member.mgid.octets()[15]) & 0xFF)};
    member.qkey = kLinkQKey;
    member.mtu = static_cast<std::uint8_t>(verbs::Mtu::Mtu2048);
    return answer(wire::pack(member));
  }

  void expect_delivered(std::string_view from, std::string_view to) {
    for (const auto& end : ends) {
      end->received.clear();
    }
    const auto packet = make_packet(ip(from), ip(to), 77);
    ends[0]->stack.transmit(packet, now);
    run(Duration::milliseconds(100));
    ASSERT_EQ(ends[1]->received.size(), 1U);
    EXPECT_EQ(ends[1]->received.front(), packet);
    EXPECT_TRUE(ends[0]->received.empty());
    EXPECT_TRUE(ends[2]->received.empty());
  }

  Instant now;
  mad::ManagementInterface sa_{mad::InterfaceKind::Gsi};
  mad::TestAgent server_{[this](mad::MadRequest& request) { return serve(request); }};
  std::uint32_t first_mlid{0xC000};
  std::vector<Gid> queries;
  std::vector<std::pair<Gid, Flags<wire::JoinState>>> joins;
  std::vector<std::pair<Gid, Flags<wire::JoinState>>> leaves;
  std::vector<QKey> sent_keys;
  std::vector<Lid> sent_to;
  std::vector<std::unique_ptr<End>> ends;
};

TEST_F(IpoibStackTest, IsUpAsAMemberOfTheBroadcastGroup) {  // R-IPOIB-22
  for (const auto& end : ends) {
    EXPECT_TRUE(end->stack.is_up());
    EXPECT_EQ(end->stack.mtu(), 2044U);
    EXPECT_EQ(end->stack.qkey(), kLinkQKey);
    EXPECT_TRUE(end->stack.attachments().contains(wire::ipoib_broadcast_group(kDefaultPKey)));
  }
}

TEST_F(IpoibStackTest, LeavesTheQKeyOfWhatItSendsToTheQp) {  // R-MI-14
  expect_delivered("10.77.0.1", "10.77.0.2");
  ends[0]->stack.transmit(make_packet(ip("10.77.0.1"), ip("224.0.0.1"), 77), now);
  run(Duration::milliseconds(100));
  EXPECT_GE(sent_keys.size(), 4U);  // ARP, an answer to it, data, and a group's
  EXPECT_THAT(sent_keys, ::testing::Each(kQKeyOfQp));
}

TEST_F(IpoibStackTest, FindsNeighborsOfBothFamilies) {  // R-IPOIB-10
  expect_delivered("10.77.0.1", "10.77.0.2");
  expect_delivered("10.77.0.1", "10.77.0.2");
  expect_delivered("fd77:1b::1", "fd77:1b::2");
}

TEST_F(IpoibStackTest, HasOneTableOfNeighborsForItselfAndRdmaCm) {  // R-IPOIB-28
  IpoibStack& stack = ends[0]->stack;
  const auto solicitations = [&] { return stack.neighbors().counters().solicitations; };
  const auto found = [&](std::string_view address) {
    stack.find_neighbor(ip(address), now + Duration::seconds(1), now);
    run(Duration::milliseconds(100));
    const auto answer = stack.poll_neighbor();
    EXPECT_FALSE(stack.poll_neighbor());
    EXPECT_TRUE(!answer || answer->address == ip(address));
    return answer ? answer->gid : Gid{};
  };
  const auto none_asked = solicitations();
  EXPECT_EQ(found("10.77.0.2"), ends[1]->gid());
  EXPECT_EQ(solicitations(), none_asked + 1);
  expect_delivered("10.77.0.1", "10.77.0.2");  // the packet asks no more
  EXPECT_EQ(solicitations(), none_asked + 1);
  expect_delivered("fd77:1b::1", "fd77:1b::2");
  EXPECT_EQ(solicitations(), none_asked + 2);
  EXPECT_EQ(found("fd77:1b::2"), ends[1]->gid());  // nor does RDMA-CM
  EXPECT_EQ(solicitations(), none_asked + 2);
  EXPECT_EQ(stack.neighbors().neighbors().size(), 2U);
  EXPECT_EQ(found("10.77.0.99"), Gid{});  // nobody has it
  run(Duration::seconds(2));
  EXPECT_FALSE(stack.poll_neighbor());
}

/// As a host does whose first port goes down: its second, the third end here, takes its place.
TEST_F(IpoibStackTest, GivesItsAddressesToTheStackOfAnotherPort) {  // R-IPOIB-30
  expect_delivered("10.77.0.1", "10.77.0.2");
  ends[1]->stack.transmit(ipoib::testing::igmp("16000000e0010203"), now);
  run(Duration::milliseconds(100));
  const auto addresses = ends[1]->stack.neighbors().addresses();
  const std::vector<InterfaceAddress> moved{addresses.begin(), addresses.end()};
  ends[1]->stack.set_port(ends[1]->port(false), now);
  ends[1]->stack.set_addresses({}, now);
  ends[2]->stack.listen_as(ends[1]->stack, now);
  ends[2]->stack.set_addresses(moved, now);
  run(Duration::milliseconds(600));
  ends[2]->received.clear();
  const Gid mgid = wire::ipoib_group(ip("224.1.2.3"), kDefaultPKey);
  EXPECT_TRUE(ends[2]->stack.attachments().contains(mgid));
  for (const char* const to : {"10.77.0.2", "224.1.2.3", "fd77:1b::2"}) {
    const auto packet = make_packet(ip(ip(to).is_v4() ? "10.77.0.1" : "fd77:1b::1"), ip(to), 77);
    ends[0]->stack.transmit(packet, now);
    run(Duration::milliseconds(100));
    ASSERT_EQ(ends[2]->received.size(), 1U) << to;
    EXPECT_EQ(ends[2]->received.front(), packet);
    ends[2]->received.clear();
  }
  ends[2]->stack.listen_as(ends[0]->stack, now);  // who listens to nothing
  run(Duration::milliseconds(100));
  EXPECT_FALSE(ends[2]->stack.attachments().contains(mgid));
}

TEST_F(IpoibStackTest, ReachesAllByTheBroadcastAndAllHostsGroups) {  // R-IPOIB-22
  for (const char* const to : {"255.255.255.255", "10.77.255.255", "224.0.0.1"}) {
    ends[0]->stack.transmit(make_packet(ip("10.77.0.1"), ip(to)), now);
  }
  ends[0]->stack.transmit(make_packet(ip("fd77:1b::1"), ip("ff02::1")), now);
  run(Duration::milliseconds(100));
  EXPECT_EQ(ends[1]->received.size(), 4U);
  EXPECT_EQ(ends[2]->received.size(), 4U);
  EXPECT_TRUE(ends[0]->received.empty());
}

TEST_F(IpoibStackTest, JoinsWhatItsHostListensTo) {  // R-IPOIB-7, R-IPOIB-8, R-IPOIB-23
  const Gid mgid = wire::ipoib_group(ip("224.1.2.3"), kDefaultPKey);
  const auto has = [&](const End& end) { return end.stack.attachments().contains(mgid); };
  ends[1]->stack.transmit(ipoib::testing::igmp("16000000e0010203"), now);
  run(Duration::milliseconds(100));
  EXPECT_TRUE(has(*ends[1]));
  joins.clear();
  expect_delivered("10.77.0.1", "224.1.2.3");
  EXPECT_FALSE(has(*ends[0]));  // who only sends is not attached
  EXPECT_THAT(ends[0]->stack.sent_to(), ::testing::ElementsAre(mgid));  // R-IPOIB-29
  EXPECT_THAT(ends[1]->stack.sent_to(), ::testing::Not(::testing::Contains(mgid)));
  EXPECT_EQ(joins, (std::vector{
                       std::pair{mgid, Flags{wire::JoinState::SendOnlyFullMember}}
  }));
  ends[1]->stack.transmit(ipoib::testing::igmp("17000000e0010203"), now);  // leaves
  run(Duration::milliseconds(100));
  EXPECT_FALSE(has(*ends[1]));  // and SA hears of it from the fabric's daemon (IpoibStack())
  EXPECT_TRUE(leaves.empty());
  run(Duration::seconds(121), Duration::seconds(1));  // who only sent leaves at SA itself
  EXPECT_THAT(leaves, ::testing::Contains(joins.front()));
  EXPECT_TRUE(ends[0]->stack.sent_to().empty());
  EXPECT_THAT(leaves,
              ::testing::Each(::testing::Field(&decltype(leaves)::value_type::second,
                                               Flags{wire::JoinState::SendOnlyFullMember})));
}

TEST_F(IpoibStackTest, GoesDownAndUpWithItsPort) {  // R-IPOIB-9
  ends[0]->stack.set_port(ends[0]->port(false), now);
  run(Duration::milliseconds(100));
  EXPECT_FALSE(ends[0]->stack.is_up());
  ends[0]->stack.set_port(ends[0]->port(), now);
  run(Duration::seconds(1));
  EXPECT_TRUE(ends[0]->stack.is_up());
  expect_delivered("10.77.0.1", "10.77.0.2");
}

TEST_F(IpoibStackTest, JoinsAnewWhenSaAsks) {  // R-IPOIB-9
  joins.clear();
  auto port = ends[0]->port();
  ++port.reregistrations;
  ends[0]->stack.set_port(port, now);
  run(Duration::seconds(1));
  const Gid broadcast = wire::ipoib_broadcast_group(kDefaultPKey);
  EXPECT_TRUE(
      std::ranges::any_of(joins, [&](const auto& join) { return join.first == broadcast; }));
  EXPECT_EQ(joins.size(), 3U);  // that, 224.0.0.1 and ff02::1
}

TEST_F(IpoibStackTest, JoinsAnewAtAnotherSubnetManager) {  // R-IPOIB-9
  const Gid all_hosts = wire::ipoib_group(ip("224.0.0.1"), kDefaultPKey);
  joins.clear();
  first_mlid = 0xC100;  // that SA gives others
  ends[0]->sm_lid = Lid{101};
  ends[0]->stack.set_port(ends[0]->port(), now);
  run(Duration::seconds(1));
  EXPECT_EQ(joins.size(), 3U);
  EXPECT_EQ(ends[0]->stack.attachments().at(all_hosts), Lid{0xC101});
  sent_to.clear();
  ends[0]->stack.transmit(make_packet(ip("10.77.0.1"), ip("224.0.0.1"), 77), now);
  run(Duration::milliseconds(100));
  EXPECT_THAT(sent_to, ::testing::ElementsAre(Lid{0xC101}));
}

TEST_F(IpoibStackTest, AsksForPathsAnewWhenSaAsksOrAnotherComes) {  // R-IPOIB-12
  expect_delivered("10.77.0.1", "10.77.0.2");
  auto port = ends[0]->port();
  ++port.reregistrations;
  queries.clear();
  ends[0]->stack.set_port(port, now);
  run(Duration::milliseconds(100));
  EXPECT_THAT(queries, ::testing::ElementsAre(ends[1]->gid()));
  ends[0]->sm_lid = port.sm_lid = Lid{101};
  queries.clear();
  ends[0]->stack.set_port(port, now);
  run(Duration::milliseconds(100));
  EXPECT_THAT(queries, ::testing::ElementsAre(ends[1]->gid()));
  expect_delivered("10.77.0.1", "10.77.0.2");
}

TEST_F(IpoibStackTest, AsksForThePathToANeighborThatHasMoved) {  // R-IPOIB-12
  expect_delivered("10.77.0.1", "10.77.0.2");
  queries.clear();
  ends[1]->lid = Lid{12};
  ends[1]->stack.set_port(ends[1]->port(), now);
  run(Duration::milliseconds(100));
  EXPECT_THAT(queries, ::testing::Contains(ends[1]->gid()));
  expect_delivered("10.77.0.1", "10.77.0.2");
}

TEST_F(IpoibStackTest, FindsANeighborAtOnceThatIsBackWithAnotherQp) {  // R-IPOIB-26
  const auto known = [&](std::string_view address) {
    return ends[0]->stack.neighbors().neighbors().find(ip(address), now).value().qpn;
  };
  expect_delivered("10.77.0.1", "10.77.0.2");
  expect_delivered("fd77:1b::1", "fd77:1b::2");
  EXPECT_EQ(known("10.77.0.2"), Qpn{0x102});
  ends[1] = std::make_unique<End>(2, IpoibStackOptions{.qpn = Qpn{0x999}});
  run(Duration::milliseconds(100));
  EXPECT_EQ(known("10.77.0.2"), Qpn{0x999});
  EXPECT_EQ(known("fd77:1b::2"), Qpn{0x999});
  const auto solicitations = ends[0]->stack.neighbors().counters().solicitations;
  expect_delivered("10.77.0.1", "10.77.0.2");
  EXPECT_EQ(ends[0]->stack.neighbors().counters().solicitations, solicitations);
}

TEST_F(IpoibStackTest, ReachesAddressesThatComeLaterAndNoneThatIsGone) {  // R-IPOIB-27
  const auto give = [&](std::uint32_t number, std::vector<InterfaceAddress> addresses) {
    addresses.push_back({IpAddress::v4(0x0A4D'0000 + number), 16});
    ends[number - 1]->stack.set_addresses(std::move(addresses), now);
  };
  ends[0]->stack.transmit(make_packet(ip("10.77.0.1"), ip("10.88.0.2")), now);
  EXPECT_EQ(ends[0]->stack.interface().counters().tx_no_route, 1U);
  give(1, {
              {ip("10.88.0.1"), 24}
  });
  give(2, {
              {ip("10.88.0.2"), 24}
  });
  expect_delivered("10.88.0.1", "10.88.0.2");
  give(3, {
              {ip("fd99::3"), 64}
  });
  give(1, {
              {ip("fd99::1"), 64}
  });
  run(Duration::seconds(31), Duration::milliseconds(100));  // longer than it is remembered
  ends[2]->received.clear();
  ends[0]->stack.transmit(make_packet(ip("fd99::1"), ip("fd99::3")), now);
  ends[0]->stack.transmit(make_packet(ip("10.77.0.1"), ip("10.88.0.2")), now);
  run(Duration::milliseconds(100));
  EXPECT_EQ(ends[2]->received.size(), 1U);
  EXPECT_EQ(ends[0]->stack.interface().counters().tx_no_route, 2U);
}

TEST_F(IpoibStackTest, OfAChildFollowsItsParent) {  // R-IPOIB-19
  ends[0]->stack.set_parent_mtu(1500);
  EXPECT_EQ(ends[0]->stack.mtu(), 1500U);
  ends[0]->stack.set_parent_mtu(65'520);
  EXPECT_EQ(ends[0]->stack.mtu(), 2044U);
}

TEST_F(IpoibStackTest, AsksForThePathOfAConnectionThatIsLost) {  // R-IPOIB-12
  using Kind = ipoib::ConnectionAction::Kind;
  for (const std::uint32_t number : {1U, 2U}) {
    ends[number - 1] =
        std::make_unique<End>(number, IpoibStackOptions{.mode = ipoib::ConnectedMode::Reliable});
  }
  run(Duration::seconds(1));
  IpoibStack& stack = ends[0]->stack;
  const auto connect = [&] {
    stack.transmit(make_packet(ip("10.77.0.1"), ip("10.77.0.2")), now);
    run(Duration::milliseconds(100));
    const auto action = stack.connections().poll_action();
    return action && action->kind == Kind::Connect ? action->id : ipoib::ConnectionId{};
  };
  stack.connections().refused(connect(), now);
  expect_delivered("10.77.0.1", "10.77.0.2");  // by datagrams, by a path
  run(Duration::seconds(10), Duration::milliseconds(100));
  const ipoib::ConnectionId made = connect();
  ASSERT_NE(made, ipoib::ConnectionId{});
  stack.connections().established(
      made, wire::pack(ipoib::ConnectionData{.qpn = Qpn{0x102}, .receive_mtu = 4096}), now);
  queries.clear();
  stack.connection_lost(made, now);
  run(Duration::milliseconds(100));
  EXPECT_THAT(queries, ::testing::ElementsAre(ends[1]->gid()));
}

TEST_F(IpoibStackTest, OfAChildHasNoLongerPacketsThanItsParent) {  // R-IPOIB-19
  constexpr PKey kPartition{0x8005};
  ends[0] = std::make_unique<End>(1, IpoibStackOptions{.parent_mtu = 1500}, kPartition);
  run(Duration::seconds(1));
  EXPECT_TRUE(ends[0]->stack.is_up());
  EXPECT_EQ(ends[0]->stack.mtu(), 1500U);
  EXPECT_EQ(ends[0]->stack.pkey(), kPartition);
  EXPECT_TRUE(ends[0]->stack.attachments().contains(wire::ipoib_broadcast_group(kPartition)));
}

TEST_F(IpoibStackTest, SleepsWhileNothingHappens) {
  run(Duration::seconds(200), Duration::seconds(1));  // what was only sent to is left after 120 s
  for (const auto& end : ends) {
    EXPECT_GT(end->stack.deadline(), now + Duration::seconds(1));
  }
}

TEST_F(IpoibStackTest, TakesArbitraryPackets) {
  Random random{7};
  for (int i = 0; i < 3'000; ++i) {
    std::vector<std::byte> payload(random.below(120));
    for (std::byte& octet : payload) {
      octet = static_cast<std::byte>(random.below(256));
    }
    const auto kinds = std::to_array<std::array<std::uint8_t, 2>>({
        {0x08, 0x00},
        {0x08, 0x06},
        {0x86, 0xDD},
        {0x00, 0x00}
    });
    const auto& kind = kinds.at(random.below(kinds.size()));
    for (std::size_t at = 0; at < std::min<std::size_t>(2, payload.size()); ++at) {
      payload[at] = std::byte{kind.at(at)};
    }
    ends[0]->stack.handle_datagram(
        {
            .destination_qp = Qpn{0x101},
            .destination_gid = {},
            .source = {.lid = Lid{2}, .qkey = kLinkQKey},
            .payload = payload
    },
        now);
    ends[0]->stack.transmit(payload, now);
  }
  run(Duration::seconds(5));
  ends[0]->received.clear();
  expect_delivered("10.77.0.1", "10.77.0.2");
}

}  // namespace
}  // namespace weft::programs::net
