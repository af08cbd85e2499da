#include "ulp/ipoib/fragments.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <span>
#include <vector>

#include "base/internet_checksum.h"
#include "base/random.h"
#include "ulp/ipoib/testing_packets.h"
#include "wire/address_text.h"
#include "wire/ipv4.h"

namespace weft::ipoib {
namespace {

using testing::from_hex;
using testing::ip;
using testing::make_packet;
using Packet = std::vector<std::byte>;

wire::Ipv4 header_of(ByteSpan packet) { return *wire::parse<wire::Ipv4>(packet); }

/// A packet of UDP that may be fragmented, whose octets all differ from those 251 before.
Packet numbered(std::size_t bytes) {
  Packet packet = make_packet(ip("10.0.0.1"), ip("10.0.0.2"), 0, bytes, false);
  for (std::size_t i = wire::kSizeOf<wire::Ipv4>; i < bytes; ++i) {
    packet[i] = static_cast<std::byte>(i % 251);
  }
  packet[5] = std::byte{0x77};  // its identification
  return packet;
}

/// As RFC 791 §3.2 puts them together.
Packet data_of(const std::vector<Packet>& fragments, std::uint16_t first_unit = 0) {
  Packet data;
  for (const Packet& fragment : fragments) {
    const wire::Ipv4 header = header_of(fragment);
    EXPECT_EQ(header.fragment_offset, first_unit + data.size() / 8);
    EXPECT_EQ(header.total_length, fragment.size());
    const std::size_t header_bytes = std::size_t{header.header_dwords} * 4;
    EXPECT_EQ(internet_checksum(ByteSpan{fragment}.first(header_bytes)), 0);
    data.insert(data.end(), fragment.begin() + static_cast<std::ptrdiff_t>(header_bytes),
                fragment.end());
  }
  return data;
}

TEST(IpoibFragments, AreThePacketInOrderAndNoLongerThanTheMtu) {  // R-IPOIB-25
  const Packet packet = numbered(5000);
  const auto fragments = fragments_of(packet, 2044);
  ASSERT_EQ(fragments.size(), 3U);
  EXPECT_EQ(fragments[0].size(), 2044U);  // 2024 octets are 253 units
  EXPECT_EQ(fragments[1].size(), 2044U);
  EXPECT_EQ(data_of(fragments), Packet(packet.begin() + 20, packet.end()));
  for (std::size_t i = 0; i < fragments.size(); ++i) {
    EXPECT_EQ(header_of(fragments[i]).more_fragments, i != 2) << i;
    EXPECT_EQ(header_of(fragments[i]).identification, 0x77U);
    EXPECT_EQ(header_of(fragments[i]).source, header_of(packet).source);
    EXPECT_EQ(header_of(fragments[i]).destination, header_of(packet).destination);
  }
}

TEST(IpoibFragments, OfAnyLengthAndMtuMakeThePacket) {  // R-IPOIB-25
  Random random{7};
  for (int i = 0; i < 500; ++i) {
    const Packet packet = numbered(24 + random.below(9000));
    const auto mtu = static_cast<std::uint32_t>(28 + random.below(3000));
    const auto fragments = fragments_of(packet, mtu);
    ASSERT_FALSE(fragments.empty());
    for (const Packet& fragment : fragments) {
      EXPECT_LE(fragment.size(), mtu);
    }
    EXPECT_EQ(data_of(fragments), Packet(packet.begin() + 20, packet.end()));
  }
}

TEST(IpoibFragments, OfAFragmentGoOnWhereItIs) {  // R-IPOIB-25
  Packet packet = numbered(5000);
  packet[6] = std::byte{0x20};  // more follow
  packet[7] = std::byte{100};
  const auto fragments = fragments_of(packet, 2044);
  ASSERT_EQ(fragments.size(), 3U);
  EXPECT_EQ(data_of(fragments, 100), Packet(packet.begin() + 20, packet.end()));
  EXPECT_TRUE(header_of(fragments.back()).more_fragments);
}

TEST(IpoibFragments, HaveThoseOptionsThatAreCopied) {  // R-IPOIB-25
  Packet packet = from_hex(
      "48000000007700004011"
      "0000"
      "0a000001"
      "0a000002"
      "0703040194040000"
      "01000000");  // record route, router alert, and an end
  packet.resize(32 + 3000, std::byte{0x5A});
  packet[2] = static_cast<std::byte>(packet.size() >> 8);
  packet[3] = static_cast<std::byte>(packet.size());
  const auto fragments = fragments_of(packet, 2044);
  ASSERT_EQ(fragments.size(), 2U);
  EXPECT_EQ(wire::hex_text(ByteSpan{fragments[0]}.subspan(20, 12)), "070304019404000001000000");
  EXPECT_EQ(header_of(fragments[1]).header_dwords, 6U);
  EXPECT_EQ(wire::hex_text(ByteSpan{fragments[1]}.subspan(20, 4)), "94040000");
  EXPECT_EQ(data_of(fragments), Packet(3000, std::byte{0x5A}));
}

TEST(IpoibFragments, AreNotMadeOfWhatMayNotBeCut) {  // RFC 791 §3.2
  EXPECT_TRUE(
      fragments_of(make_packet(ip("10.0.0.1"), ip("10.0.0.2"), 1, 5000, true), 2044).empty());
  EXPECT_TRUE(fragments_of(make_packet(ip("fd00::1"), ip("fd00::2"), 1, 5000), 2044).empty());
  EXPECT_TRUE(fragments_of({}, 2044).empty());
  EXPECT_TRUE(fragments_of(numbered(5000), 27).empty());
  Packet bad = numbered(5000);
  bad[0] = std::byte{0x46};
  bad[20] = std::byte{0x94};
  bad[21] = std::byte{9};  // beyond the header
  EXPECT_TRUE(fragments_of(bad, 2044).empty());
  bad[21] = std::byte{0};
  EXPECT_TRUE(fragments_of(bad, 2044).empty());
}

TEST(IpoibFragments, OfAShortPacketAreThePacket) {
  const Packet packet = numbered(2044);
  const auto fragments = fragments_of(packet, 2044);
  ASSERT_EQ(fragments.size(), 1U);
  EXPECT_FALSE(header_of(fragments[0]).more_fragments);
  EXPECT_EQ(data_of(fragments), Packet(packet.begin() + 20, packet.end()));
}

}  // namespace
}  // namespace weft::ipoib
