#include "ulp/rsocket/datagram_protocol.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <span>

#include "wire/layout.h"

namespace weft::rsockets {
namespace {

constexpr IpAddress kOwn6 = IpAddress::v6(0xFD77'0000'0000'0000, 1);

TEST(DatagramHeader, SaysTheSendersAddressInNetworkOrder) {
  const DatagramHeader header{.port = 7'174, .address = 0x7F4D'0001};
  const auto octets = wire::pack(header);
  constexpr std::array<unsigned char, 8> kExpected{4, 8, 0x1C, 0x06, 0x7F, 0x4D, 0, 1};
  EXPECT_TRUE(std::ranges::equal(octets, std::as_bytes(std::span{kExpected})));
  const DatagramName from{.address = IpAddress::v4(0x7F4D'0001), .port = 7'174};
  EXPECT_EQ(read_datagram(octets), (DatagramOrigin{.from = from, .header_bytes = 8}));
  std::array<std::byte, 8> written{};
  EXPECT_EQ(write_datagram_header(from, written.data()), written.size());
  EXPECT_EQ(written, octets);
}

TEST(DatagramHeader, OfIpv6IsLongerByItsFlowAndItsAddress) {
  const DatagramName from{.address = kOwn6, .port = 7'174};
  std::array<std::byte, 24> octets{};
  ASSERT_EQ(write_datagram_header(from, octets.data()), octets.size());
  constexpr std::array<unsigned char, 24> kExpected{
      6, 24, 0x1C, 0x06, 0, 0, 0, 0, 0xFD, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  EXPECT_TRUE(std::ranges::equal(octets, std::as_bytes(std::span{kExpected})));
  EXPECT_EQ(read_datagram(octets), (DatagramOrigin{.from = from, .header_bytes = 24}));
  EXPECT_FALSE(read_datagram(std::span{octets}.first(23)));
  octets[1] = std::byte{8};
  EXPECT_FALSE(read_datagram(octets));
}

TEST(DatagramHeader, OfAnotherVersionOrLengthOrCutShortIsNone) {
  const auto good = wire::pack(DatagramHeader{.port = 1, .address = 2});
  EXPECT_FALSE(read_datagram(std::span{good}.first(7)));
  for (const std::size_t at : {0U, 1U}) {
    auto bad = good;
    bad[at] = std::byte{6};
    EXPECT_FALSE(read_datagram(bad)) << at;
  }
}

TEST(UdpHeader, BeginsWithItsTagAndSaysTheQpn) {
  const UdpHeader header{
      .operation = UdpOperation::Control, .qpn = 0x12'3456, .address = 0x7F4D'0002};
  const auto octets = wire::pack(header);
  constexpr std::array<unsigned char, 16> kExpected{0x55, 0x55, 0x55, 0x55, 4,    7,    16, 0,
                                                    0,    0x12, 0x34, 0x56, 0x7F, 0x4D, 0,  2};
  EXPECT_TRUE(std::ranges::equal(octets, std::as_bytes(std::span{kExpected})));
  const auto read = read_udp(octets);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->operation, UdpOperation::Control);
  EXPECT_EQ(read->qpn, 0x12'3456U);
  EXPECT_EQ(read->address, IpAddress::v4(0x7F4D'0002));
  EXPECT_EQ(read->header_bytes, 16U);
}

TEST(UdpHeader, OfIpv6IsLongerByItsAddress) {
  std::array<std::byte, 28> octets{};
  ASSERT_EQ(write_udp_header(UdpOperation::Data, 0x12'3456, kOwn6, octets.data()), octets.size());
  constexpr std::array<unsigned char, 28> kExpected{0x55, 0x55, 0x55, 0x55, 6, 0, 28, 0, 0, 0x12,
                                                    0x34, 0x56, 0xFD, 0x77, 0, 0, 0,  0, 0, 0,
                                                    0,    0,    0,    0,    0, 0, 0,  1};
  EXPECT_TRUE(std::ranges::equal(octets, std::as_bytes(std::span{kExpected})));
  const auto read = read_udp(octets);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->address, kOwn6);
  EXPECT_EQ(read->header_bytes, octets.size());
  EXPECT_FALSE(read_udp(std::span{octets}.first(27)));
}

TEST(UdpHeader, OfAnotherTagVersionOperationOrLengthIsNone) {
  const auto good = wire::pack(UdpHeader{.qpn = 1});
  ASSERT_TRUE(read_udp(good));
  EXPECT_FALSE(read_udp(std::span{good}.first(15)));
  for (const std::size_t at : {0U, 4U, 5U, 6U}) {
    auto bad = good;
    bad[at] = std::byte{3};
    EXPECT_FALSE(read_udp(bad)) << at;
  }
}

}  // namespace
}  // namespace weft::rsockets
