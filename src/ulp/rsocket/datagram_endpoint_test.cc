#include "ulp/rsocket/datagram_endpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace weft::rsockets {
namespace {

using Path = DatagramEndpoint::Path;

/// The N-th host is 127.77.0.N and fd77::N.
constexpr IpAddress v4(std::uint32_t host) { return IpAddress::v4(0x7F4D'0000 + host); }
constexpr IpAddress v6(std::uint64_t host) { return IpAddress::v6(0xFD77'0000'0000'0000, host); }

AddressBook book() {
  return {.ipv4_beside = [](const IpAddress& address) -> std::optional<IpAddress> {
            for (std::uint32_t host = 0; host < 10; ++host) {
              if (address == v4(host) || address == v6(host)) {
                return v4(host);
              }
            }
            return std::nullopt;
          },
          .ipv6_beside = [](const IpAddress&) -> std::optional<IpAddress> { return std::nullopt; }};
}

std::vector<std::byte> over_udp(UdpOperation operation, std::uint32_t qpn, const IpAddress& from,
                                std::string_view text = {}) {
  std::vector<std::byte> octets(kUdpHeader6Bytes);
  octets.resize(write_udp_header(operation, qpn, from, octets.data()));
  std::ranges::copy(std::as_bytes(std::span{text}), std::back_inserter(octets));
  return octets;
}

class Endpoint : public ::testing::Test {
 protected:
  Endpoint() { here.open({.v4 = v4(1), .v6 = v6(1), .port = 7}); }

  DatagramEndpoint here{IpFamily::V6, book(), {.peers = 3}};
  const DatagramName there{.address = v4(2), .port = 9};
};

TEST_F(Endpoint, AsksForAPathOnceItKnowsThePeersQpAndAnswersDataWithItsOwn) {
  const auto octets = over_udp(UdpOperation::Data, 0x12, v4(2), "hello");
  auto message = here.take_udp(there, octets);
  ASSERT_TRUE(message);
  EXPECT_EQ(message->from, there);
  EXPECT_TRUE(message->wants_answer);
  EXPECT_TRUE(message->needs_path);
  EXPECT_FALSE(message->is_path_stale);
  ASSERT_TRUE(message->data);
  EXPECT_EQ(message->data->size(), 5U);
  EXPECT_EQ(here.peer_at(message->peer).qpn, 0x12U);
  here.peer_at(message->peer).path = Path::Searched;
  message = here.take_udp(there, octets);
  EXPECT_FALSE(message->needs_path) << "it is looked for";
}

TEST_F(Endpoint, AnswersNoAnswer) {
  const auto message = here.take_udp(there, over_udp(UdpOperation::Control, 0x12, v4(2)));
  ASSERT_TRUE(message);
  EXPECT_FALSE(message->wants_answer);
  EXPECT_FALSE(message->data);
  EXPECT_TRUE(message->needs_path);
}

TEST_F(Endpoint, APeerWithAnotherQpNeedsAnotherPath) {
  auto message = here.take_udp(there, over_udp(UdpOperation::Control, 0x12, v4(2)));
  here.peer_at(message->peer).path = Path::Known;
  message = here.take_udp(there, over_udp(UdpOperation::Control, 0x12, v4(2)));
  EXPECT_FALSE(message->is_path_stale);
  EXPECT_FALSE(message->needs_path);
  message = here.take_udp(there, over_udp(UdpOperation::Control, 0x13, v4(2)));
  EXPECT_TRUE(message->is_path_stale);
  EXPECT_TRUE(message->needs_path);
  EXPECT_EQ(here.peer_at(message->peer).path, Path::Unknown);
}

TEST_F(Endpoint, BelievesAnIpv6NameOnlyOfWhoeverHasTheAddressBesideIt) {
  const auto octets = over_udp(UdpOperation::Data, 0x12, v6(2), "hello");
  const auto message = here.take_udp(there, octets);
  ASSERT_TRUE(message);
  EXPECT_EQ(message->from, (DatagramName{.address = v6(2), .port = 9}));
  EXPECT_FALSE(here.take_udp({.address = v4(3), .port = 9}, octets));
}

TEST_F(Endpoint, HearsNothingForAnIpVersionThatItDoesNotSpeak) {
  here.open({.v4 = std::nullopt, .v6 = v6(1), .port = 7});
  EXPECT_FALSE(here.take_udp(there, over_udp(UdpOperation::Data, 0x12, v4(2), "hello")));
  EXPECT_TRUE(here.take_udp(there, over_udp(UdpOperation::Data, 0x12, v6(2), "hello")));
  EXPECT_EQ(here.named(there).error().code, ErrorCode::NetworkUnreachable);
}

TEST_F(Endpoint, OnceConnectedIsSpokenToByItsPeerAloneButAnswersEverybody) {
  here.connect(there);
  const auto stranger = here.take_udp({.address = v4(3), .port = 9},
                                      over_udp(UdpOperation::Data, 0x12, v4(3), "hello"));
  ASSERT_TRUE(stranger);
  EXPECT_TRUE(stranger->wants_answer);
  EXPECT_FALSE(stranger->data);
  EXPECT_TRUE(here.take_udp(there, over_udp(UdpOperation::Data, 0x12, v4(2), "hello"))->data);
  std::array<std::byte, kDatagramHeader6Bytes> octets{};
  const auto header = [&](const DatagramName& from) {
    return std::span{octets}.first(write_datagram_header(from, octets.data()));
  };
  EXPECT_TRUE(here.take_datagram(header(there)));
  EXPECT_FALSE(here.take_datagram(header({.address = v4(2), .port = 10})));
}

TEST_F(Endpoint, ForgetsTheOldestPeerForANewOneAndUsesItsSlotAnew) {
  for (std::uint16_t port = 1; port <= 3; ++port) {
    EXPECT_FALSE(here.peer_of({.address = v4(2), .port = port}).is_slot_used_anew);
  }
  const auto first = here.peer_of({.address = v4(2), .port = 1}).peer->slot;
  here.peer_at(first).qpn = 5;
  const auto found = here.peer_of({.address = v4(2), .port = 4});
  EXPECT_TRUE(found.is_slot_used_anew);
  EXPECT_EQ(found.peer->slot, first);
  EXPECT_EQ(found.peer->qpn, 0U);
  EXPECT_EQ(here.known(), 3U);
  EXPECT_EQ(here.peer_at(first).name.port, 4);
}

TEST_F(Endpoint, NamesItselfInThePeersIpVersion) {
  std::array<std::byte, kUdpHeader6Bytes> octets{};
  std::size_t bytes = here.write_header_to(there, octets.data());
  EXPECT_EQ(read_datagram(std::span{octets}.first(bytes))->from,
            (DatagramName{.address = v4(1), .port = 7}));
  bytes = here.write_header_to({.address = v6(2), .port = 9}, octets.data());
  EXPECT_EQ(read_datagram(std::span{octets}.first(bytes))->from,
            (DatagramName{.address = v6(1), .port = 7}));
  bytes = here.write_udp_header_to(there, UdpOperation::Control, 0x12, octets.data());
  EXPECT_EQ(read_udp(std::span{octets}.first(bytes))->address, v4(1));
}

TEST_F(Endpoint, MeansItselfByTheOwnLoopbackAddress) {
  EXPECT_EQ(here.named({.address = IpAddress::v4(0x7F00'0001), .port = 9})->address, v4(1));
  EXPECT_EQ(here.named({.address = IpAddress::v6(0, 1), .port = 9})->address, v6(1));
  EXPECT_EQ(here.named(there)->address, v4(2));
}

TEST_F(Endpoint, IsReachedOverUdpByTheIpv4AddressBesideItsName) {
  EXPECT_EQ(here.udp_name_of({.address = v6(2), .port = 9}), there);
  EXPECT_FALSE(here.udp_name_of({.address = IpAddress::v6(1, 1), .port = 9}));
}

}  // namespace
}  // namespace weft::rsockets
