#include "ulp/ipoib/interface.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "ulp/ipoib/testing_packets.h"
#include "ulp/ipoib/too_big.h"
#include "wire/address_text.h"
#include "wire/ipoib/mgid.h"

namespace weft::ipoib {
namespace {

using testing::ip;
using testing::make_packet;

constexpr QKey kLinkQKey{0xB1B};

/// A link whose neighbours are what the test says.
class FakeLink final : public Link {
 public:
  [[nodiscard]] std::optional<wire::McMemberRecord> group() const override {
    return is_up ? std::optional{wire::McMemberRecord{.mgid = wire::ipoib_broadcast_group(kDefaultPKey),
                                                      .qkey = kLinkQKey,
                                                      .mlid = Lid{0xC000},
                                                      .mtu = mtu,
                                                      .pkey = kDefaultPKey}}
                 : std::nullopt;
  }
  [[nodiscard]] std::optional<wire::IpoibHardwareAddress> find(const IpAddress& address,
                                                               Instant /*now*/) const override {
    const auto found = neighbors.find(address);
    return found == neighbors.end() ? std::nullopt : std::optional{found->second};
  }
  bool solicit(const IpAddress& address, Instant /*until*/, Instant /*now*/) override {
    ++solicited[address];
    return true;
  }
  [[nodiscard]] std::optional<IpAddress> next_hop(const IpAddress& destination) const override {
    return destination == ip("192.0.2.1") ? std::nullopt : std::optional{destination};
  }
  [[nodiscard]] bool is_broadcast(const IpAddress& destination) const override {
    return destination.is_limited_broadcast() || destination == ip("10.0.0.255");
  }

  bool is_up{true};
  std::uint8_t mtu{4};  // 2048
  std::map<IpAddress, wire::IpoibHardwareAddress> neighbors;
  std::map<IpAddress, unsigned> solicited;
};

wire::IpoibHardwareAddress hardware(std::uint32_t number, Flags<wire::IpoibFlag> flags = {}) {
  return {
      .flags = flags, .qpn = Qpn{number},
           .gid = Gid{kDefaultGidPrefix, Guid{number}}
  };
}

Instant at(std::int64_t seconds) { return Instant{Duration::seconds(seconds)}; }

struct End {
  explicit End(const InterfaceOptions& options = {}) : interface(link, options) {
    interface.link_changed({});
  }
  FakeLink link;
  Interface interface;
};

TEST(IpoibInterfaceData, SendsADatagramToAResolvedNeighbor) {  // R-IPOIB-3, R-IPOIB-10
  End end;
  const auto packet = make_packet(ip("10.0.0.1"), ip("10.0.0.2"), 5);
  end.interface.transmit(packet, {});
  end.interface.transmit(packet, {});
  EXPECT_EQ(end.link.solicited[ip("10.0.0.2")], 1U);
  EXPECT_FALSE(end.interface.paths().poll_query());
  end.link.neighbors[ip("10.0.0.2")] = hardware(2);
  end.interface.link_changed({});
  const auto query = end.interface.paths().poll_query();
  ASSERT_TRUE(query);
  end.interface.paths().answered(query->id, {.dlid = Lid{9}}, {});
  const auto sent = end.interface.paths().poll_send();
  ASSERT_TRUE(sent);
  EXPECT_EQ(sent->neighbor, hardware(2));
  EXPECT_EQ(wire::hex_text(ByteSpan{sent->packet}.first(4)), "08000000");
  EXPECT_TRUE(std::ranges::equal(ByteSpan{sent->packet}.subspan(4), packet));
  EXPECT_TRUE(end.interface.paths().poll_send());
  EXPECT_EQ(end.interface.counters().tx_packets, 2U);
}

TEST(IpoibInterfaceData, DropsWhatNobodyAnswersFor) {  // R-IPOIB-10
  End end{{.packets_of_neighbor = 2}};
  for (int i = 0; i < 3; ++i) {
    end.interface.transmit(make_packet(ip("10.0.0.1"), ip("10.0.0.2")), at(0));
  }
  EXPECT_EQ(end.interface.counters().tx_unresolved, 1U);
  EXPECT_EQ(end.interface.deadline(), at(3));
  end.interface.handle_timeout(at(3));
  EXPECT_EQ(end.interface.counters().tx_unresolved, 3U);
  EXPECT_EQ(end.interface.deadline(), Instant::never());
}

TEST(IpoibInterfaceData, HasTheMtuOfItsModeAndOfItsParent) {  // R-IPOIB-2, R-IPOIB-19
  EXPECT_EQ(End{}.interface.mtu(), 2044U);
  EXPECT_EQ((End{{.mtu = 1500}}.interface.mtu()), 1500U);
  EXPECT_EQ((End{{.mode = ConnectedMode::Reliable}}.interface.mtu()), 65'520U);
  EXPECT_EQ((End{
                {.mode = ConnectedMode::Reliable, .parent_mtu = 2044}
  }
                 .interface.mtu()),
            2044U);
  EXPECT_EQ((End{{.mtu = 9000}}.interface.mtu()), 2044U);
}

TEST(IpoibInterfaceData, DoesNotComeUpBelowTheLeastMtu) {  // R-IPOIB-2
  End end;
  end.link.mtu = 3;  // 1024
  end.interface.link_changed({});
  EXPECT_FALSE(end.interface.is_up());
  end.interface.transmit(make_packet(ip("10.0.0.1"), ip("10.0.0.2")), {});
  EXPECT_EQ(end.interface.counters().tx_link_down, 1U);
}

TEST(IpoibInterfaceData, TellsTheHostWhatIsTooBig) {  // R-IPOIB-13, R-IPOIB-16
  End end{{.mode = ConnectedMode::Reliable}};
  end.link.neighbors[ip("10.0.0.2")] = hardware(2);  // of datagrams
  end.interface.transmit(make_packet(ip("10.0.0.1"), ip("10.0.0.2"), 1, 4000), {});
  const auto answer = end.interface.poll_delivery();
  ASSERT_TRUE(answer);
  EXPECT_EQ(wire::hex_text(ByteSpan{*answer}.subspan(24, 4)), "000007fc");
  EXPECT_EQ(end.interface.counters().tx_too_big, 1U);
  end.link.neighbors[ip("10.0.0.3")] = hardware(3, wire::IpoibFlag::ReliableConnected);
  end.interface.transmit(make_packet(ip("10.0.0.1"), ip("10.0.0.3"), 1, 4000), {});
  EXPECT_FALSE(end.interface.poll_delivery());
  EXPECT_TRUE(end.interface.connections().poll_action());
}

/// What the interface sends as datagrams.
std::vector<Packet> datagrams_of(Interface& interface) {
  while (const auto query = interface.paths().poll_query()) {
    interface.paths().answered(query->id, {.dlid = Lid{9}}, {});
  }
  std::vector<Packet> sent;
  while (auto send = interface.paths().poll_send()) {
    sent.push_back(std::move(send->packet));
  }
  return sent;
}

TEST(IpoibInterfaceData, FragmentsWhatIsTooBigAndMayBe) {  // R-IPOIB-25
  End end{{.mode = ConnectedMode::Reliable}};
  end.link.neighbors[ip("10.0.0.2")] = hardware(2);  // of datagrams
  end.interface.transmit(make_packet(ip("10.0.0.1"), ip("10.0.0.2"), 1, 5000, false), {});
  const auto sent = datagrams_of(end.interface);
  ASSERT_EQ(sent.size(), 3U);
  std::size_t data = 0;
  for (const Packet& payload : sent) {
    EXPECT_LE(payload.size(), 2048U);
    EXPECT_EQ(wire::hex_text(ByteSpan{payload}.first(4)), "08000000");
    data += payload.size() - 24;
  }
  EXPECT_EQ(data, 4980U);
  EXPECT_EQ(end.interface.counters().tx_fragmented, 1U);
  EXPECT_EQ(end.interface.counters().tx_packets, 3U);
  EXPECT_EQ(end.interface.counters().tx_too_big, 0U);
  EXPECT_FALSE(end.interface.poll_delivery());
}

TEST(IpoibInterfaceData, FragmentsForAnEndThatReceivesLess) {  // R-IPOIB-25, R-IPOIB-16
  End end{{.mode = ConnectedMode::Reliable}};
  end.link.neighbors[ip("10.0.0.3")] = hardware(3, wire::IpoibFlag::ReliableConnected);
  const auto send = [&](std::size_t bytes) {
    end.interface.transmit(make_packet(ip("10.0.0.1"), ip("10.0.0.3"), 1, bytes, false), {});
  };
  send(100);
  const auto connect = end.interface.connections().poll_action();
  ASSERT_TRUE(connect);
  const auto data = wire::pack(ConnectionData{.qpn = Qpn{3}, .receive_mtu = 4004});
  end.interface.connections().established(connect->id, data, {});
  EXPECT_TRUE(end.interface.connections().poll_action());
  send(5000);
  unsigned sent = 0;
  while (const auto action = end.interface.connections().poll_action()) {
    EXPECT_LE(action->packet.size(), 4004U);
    ++sent;
  }
  EXPECT_EQ(sent, 2U);
}

TEST(IpoibInterfaceData, SendsAtOnceWhereAConnectionHasRoom) {
  End end{{.mode = ConnectedMode::Reliable}};
  end.link.neighbors[ip("10.0.0.3")] = hardware(3, wire::IpoibFlag::ReliableConnected);
  std::vector<Packet> sent;
  bool has_room = true;
  end.interface.send_connected_by([&](ConnectionId, ByteSpan header, ByteSpan packet) {
    if (has_room) {
      sent.emplace_back(header.begin(), header.end());
      sent.back().insert(sent.back().end(), packet.begin(), packet.end());
    }
    return has_room;
  });
  const auto packet = make_packet(ip("10.0.0.1"), ip("10.0.0.3"), 1, 5000, false);
  end.interface.transmit(packet, {});
  const auto connect = end.interface.connections().poll_action();
  ASSERT_TRUE(connect);
  const auto data = wire::pack(ConnectionData{.qpn = Qpn{3}, .receive_mtu = 65'524});
  end.interface.connections().established(connect->id, data, {});
  end.interface.transmit(packet, {});
  EXPECT_TRUE(sent.empty()) << "the first waits, and is sent first";
  const auto first = end.interface.connections().poll_action();
  const auto second = end.interface.connections().poll_action();
  ASSERT_TRUE(first && second);
  end.interface.transmit(packet, {});
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent.front(), second->packet);
  EXPECT_FALSE(end.interface.connections().poll_action());
  has_room = false;
  end.interface.transmit(packet, {});
  EXPECT_EQ(end.interface.connections().poll_action()->packet, second->packet);
  EXPECT_EQ(end.interface.counters().tx_packets, 4U);
}

TEST(IpoibInterfaceData, DeliversAsItComesToWhoTakesIt) {
  End end{{.mode = ConnectedMode::Reliable}};
  const auto packet = make_packet(ip("10.0.0.3"), ip("10.0.0.1"), 1, 100, false);
  Packet payload{std::byte{0x08}, std::byte{0}, std::byte{0}, std::byte{0}};
  payload.insert(payload.end(), packet.begin(), packet.end());
  Packet delivered;
  end.interface.deliver_to(
      [&](ByteSpan one, PartialChecksum) { delivered.assign(one.begin(), one.end()); });
  end.interface.handle_connected(1, payload);
  EXPECT_EQ(delivered, packet);
  EXPECT_FALSE(end.interface.poll_delivery());
  EXPECT_EQ(end.interface.counters().rx_packets, 1U);
}

constexpr PartialChecksum kOfTcp{.start = 20, .at = 16};

/// Two ends with a connection from the first to the second, each of which takes partial checksums
/// or not.
struct Pair {
  Pair(bool first, bool second) : from(options(first)), to(options(second)) {
    from.link.neighbors[ip("10.0.0.3")] = hardware(3, wire::IpoibFlag::ReliableConnected);
    from.interface.send_connected_by([&](ConnectionId, ByteSpan header, ByteSpan packet) {
      if (has_room) {
        sent.assign(header.begin(), header.end());
        sent.insert(sent.end(), packet.begin(), packet.end());
      }
      return has_room;
    });
    to.interface.deliver_to([&](ByteSpan one, PartialChecksum left) {
      delivered.assign(one.begin(), one.end());
      checksum = left;
    });
    auto& table = from.interface.connections();
    from.interface.transmit(packet, {});
    const auto connect = table.poll_action();
    const auto said = [](bool takes) {
      return private_data_of({.qpn = Qpn{3}, .receive_mtu = 65'524}, takes);
    };
    EXPECT_TRUE(to.interface.connections().accept(kInbound, said(first)));
    table.established(connect->id, said(second), {});
    EXPECT_TRUE(table.poll_action());
  }
  static InterfaceOptions options(bool takes) {
    return {.mode = ConnectedMode::Reliable, .connections = {.partial_checksums = takes}};
  }

  static constexpr ConnectionId kInbound = 7;
  const Packet packet{make_packet(ip("10.0.0.1"), ip("10.0.0.3"), 1, 5000)};
  End from;
  End to;
  bool has_room{true};
  Packet sent;
  Packet delivered;
  PartialChecksum checksum;
};

TEST(IpoibInterfaceData, LeavesChecksumsToAnEndThatTakesThem) {  // R-IPOIB-31
  Pair pair{true, true};
  ASSERT_TRUE(pair.from.interface.transmit_partial(pair.packet, kOfTcp, {}));
  EXPECT_EQ(wire::hex_text(ByteSpan{pair.sent}.first(kHeaderBytes)), "08001410");
  EXPECT_EQ(pair.from.interface.counters().tx_partial_checksums, 1U);
  pair.to.interface.handle_connected(Pair::kInbound, pair.sent);
  EXPECT_EQ(pair.delivered, pair.packet);
  EXPECT_EQ(pair.checksum, kOfTcp);
  EXPECT_EQ(pair.to.interface.counters().rx_partial_checksums, 1U);

  pair.from.interface.transmit(pair.packet, {});
  EXPECT_EQ(wire::hex_text(ByteSpan{pair.sent}.first(kHeaderBytes)), "08000000");
  pair.to.interface.handle_connected(Pair::kInbound, pair.sent);
  EXPECT_TRUE(pair.checksum.is_complete());
}

TEST(IpoibInterfaceData, LeavesNoChecksumToWhoDoesNotTakeIt) {  // R-IPOIB-31
  for (const auto& [first, second] : {
           std::pair{true,  false},
           {false, true },
           {false, false}
  }) {
    Pair pair{first, second};
    EXPECT_FALSE(pair.from.interface.transmit_partial(pair.packet, kOfTcp, {}));
    EXPECT_TRUE(pair.sent.empty());
    // What RFC 4391 reserves is not looked at.
    Packet other{std::byte{0x08}, std::byte{0}, std::byte{20}, std::byte{16}};
    other.insert(other.end(), pair.packet.begin(), pair.packet.end());
    pair.to.interface.handle_connected(Pair::kInbound, other);
    EXPECT_TRUE(pair.checksum.is_complete());
    EXPECT_EQ(pair.delivered, pair.packet);
  }
}

TEST(IpoibInterfaceData, LeavesNoChecksumOfWhatWaitsOrIsADatagram) {  // R-IPOIB-31
  Pair pair{true, true};
  for (const std::string_view group : {"224.1.2.3", "10.0.0.255"}) {  // whatever is known of them
    pair.from.link.neighbors[ip(group)] = hardware(3, wire::IpoibFlag::ReliableConnected);
  }
  const auto refuses = [&](std::string_view to, std::size_t bytes = 5000,
                           PartialChecksum checksum = kOfTcp) {
    return !pair.from.interface.transmit_partial(make_packet(ip("10.0.0.1"), ip(to), 1, bytes),
                                                 checksum, {});
  };
  EXPECT_TRUE(refuses("10.0.0.3", 65'521)) << "is cut";
  EXPECT_TRUE(refuses("10.0.0.4")) << "is looked for";
  EXPECT_TRUE(refuses("224.1.2.3"));
  EXPECT_TRUE(refuses("10.0.0.255"));
  EXPECT_TRUE(refuses("192.0.2.1")) << "no route";
  EXPECT_TRUE(refuses("10.0.0.3", 100, {.start = 20, .at = 79})) << "reaches over the end";
  EXPECT_TRUE(refuses("10.0.0.3", 100, {.start = 19, .at = 16})) << "is in the IP header";
  EXPECT_TRUE(refuses("10.0.0.3", 100, {}));
  pair.has_room = false;
  EXPECT_TRUE(refuses("10.0.0.3"));
  pair.has_room = true;
  pair.from.link.is_up = false;
  pair.from.interface.link_changed({});
  EXPECT_TRUE(refuses("10.0.0.3"));
  EXPECT_TRUE(pair.sent.empty());
  EXPECT_EQ(pair.from.interface.counters().tx_partial_checksums, 0U);
}

TEST(IpoibInterfaceData, DropsAPartialChecksumThatLiesElsewhere) {  // R-IPOIB-31
  Pair pair{true, true};
  for (const auto& [start, at, is_right] : {
           std::tuple{20,  78, true },
           {20,  79, false},
           {19,  16, false},
           {0,   1,  false},
           {255, 0,  false}
  }) {
    Packet payload{std::byte{0x08}, std::byte{0}, static_cast<std::byte>(start),
                   static_cast<std::byte>(at)};
    const auto packet = make_packet(ip("10.0.0.1"), ip("10.0.0.3"), 1, 100);
    payload.insert(payload.end(), packet.begin(), packet.end());
    pair.delivered.clear();
    pair.to.interface.handle_connected(Pair::kInbound, payload);
    EXPECT_EQ(!pair.delivered.empty(), is_right) << start << ' ' << at;
  }
  EXPECT_EQ(pair.to.interface.counters().rx_malformed, 4U);
}

TEST(IpoibInterfaceData, FragmentsWhatIsForGroups) {  // R-IPOIB-25
  End end{{.mode = ConnectedMode::Reliable}};
  end.interface.transmit(make_packet(ip("10.0.0.1"), ip("10.0.0.255"), 1, 5000, false), {});
  unsigned sent = 0;
  while (const auto action = end.interface.groups().poll_action()) {
    if (action->kind == GroupAction::Kind::Send) {
      EXPECT_LE(action->packet.size(), 2048U);
      ++sent;
    }
  }
  EXPECT_EQ(sent, 3U);
}

TEST(IpoibInterfaceData, SendsMulticastAsDatagrams) {  // R-IPOIB-14
  End end{{.mode = ConnectedMode::Reliable}};
  end.interface.transmit(make_packet(ip("10.0.0.1"), ip("224.1.2.3")), {});
  EXPECT_EQ(end.interface.groups().poll_action()->kind, GroupAction::Kind::Join);
  end.interface.transmit(make_packet(ip("10.0.0.1"), ip("10.0.0.255")), {});
  const auto sent = end.interface.groups().poll_action();
  EXPECT_EQ(sent->kind, GroupAction::Kind::Send);
  EXPECT_EQ(sent->group.mlid, Lid{0xC000});
  EXPECT_FALSE(end.interface.connections().poll_action());
}

TEST(IpoibInterfaceData, FollowsTheHostsOwnReports) {  // R-IPOIB-8
  End end;
  end.interface.transmit(testing::igmp("16000000e0010203"), {});
  const auto join = end.interface.groups().poll_action();
  ASSERT_TRUE(join);
  EXPECT_EQ(join->join.record.join_state, Flags{wire::JoinState::FullMember});
  EXPECT_EQ(wire::address_text(join->mgid.octets()), "ff12:401b:ffff::1:203");
}

TEST(IpoibInterfaceData, DeliversWhatIsForTheHost) {  // R-IPOIB-3, R-IPOIB-4
  End end;
  const auto packet = make_packet(ip("10.0.0.2"), ip("10.0.0.1"), 7);
  Packet payload = testing::from_hex("08000000");
  payload.insert(payload.end(), packet.begin(), packet.end());
  const auto give = [&](const ReceivedPayload& received) {
    end.interface.handle_payload(received, {});
    return end.interface.poll_delivery().has_value();
  };
  const Gid mgid = wire::ipoib_group(ip("224.1.2.3"), kDefaultPKey);
  EXPECT_TRUE(give({.payload = payload, .pkey = kDefaultPKey, .qkey = kLinkQKey}));
  EXPECT_FALSE(give({.payload = payload, .pkey = kDefaultPKey, .qkey = QKey{1}}));
  EXPECT_FALSE(give({.payload = payload, .pkey = PKey{0x8001}, .qkey = kLinkQKey}));
  EXPECT_EQ(end.interface.counters().rx_wrong_key, 2U);
  EXPECT_FALSE(give({.payload = payload, .pkey = kDefaultPKey, .qkey = kLinkQKey, .mgid = mgid}));
  EXPECT_EQ(end.interface.counters().rx_unwanted, 1U);
  ASSERT_TRUE(end.interface.groups().set_listening(ip("224.1.2.3"), true, {}));
  EXPECT_TRUE(give({.payload = payload, .pkey = kDefaultPKey, .qkey = kLinkQKey, .mgid = mgid}));
  payload[0] = std::byte{0x86};
  payload[1] = std::byte{0xDD};  // says IPv6
  EXPECT_FALSE(give({.payload = payload, .pkey = kDefaultPKey, .qkey = kLinkQKey}));
  EXPECT_FALSE(
      give({.payload = ByteSpan{payload}.first(3), .pkey = kDefaultPKey, .qkey = kLinkQKey}));
  EXPECT_EQ(end.interface.counters().rx_malformed, 2U);
}

TEST(IpoibInterfaceData, CountsWhatItCannotSend) {
  End end;
  end.interface.transmit(testing::from_hex("00"), {});
  end.interface.transmit(make_packet(ip("10.0.0.1"), ip("192.0.2.1")), {});
  EXPECT_EQ(end.interface.counters().tx_errors, 1U);
  EXPECT_EQ(end.interface.counters().tx_no_route, 1U);
  end.interface.transmit(make_packet(ip("10.0.0.1"), ip("10.0.0.2")), {});
  end.link.is_up = false;
  end.interface.link_changed({});
  EXPECT_EQ(end.interface.counters().tx_link_down, 1U);
}

TEST(DhcpOverIpoib, NamesTheClientByItsPort) {  // R-IPOIB-20
  EXPECT_EQ(wire::hex_text(dhcp_client_identifier(Guid{0x0002'C903'0001'0203}, 0x11223344)),
            "ff11223344000300200002c90300010203");
}

}  // namespace
}  // namespace weft::ipoib
