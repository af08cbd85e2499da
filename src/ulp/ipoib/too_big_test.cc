#include "ulp/ipoib/too_big.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/internet_checksum.h"
#include "ulp/ipoib/testing_packets.h"
#include "wire/address_text.h"
#include "wire/ipoib/message.h"

namespace weft::ipoib {
namespace {

using testing::ip;
using testing::make_packet;

TEST(IpoibTooBig, TellsAnIpv4SenderTheMtu) {  // R-IPOIB-13
  const auto packet = make_packet(ip("10.0.0.1"), ip("10.0.0.2"), 1, 3000);
  const auto answer = make_too_big(packet, 2044);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->size(), 576U);
  const ByteSpan bytes{*answer};
  EXPECT_EQ(internet_checksum(bytes.first(20)), 0);
  EXPECT_EQ(internet_checksum(bytes.subspan(20)), 0);
  EXPECT_EQ(wire::hex_text(bytes.subspan(12, 8)), "0a0000020a000001");  // back to the sender
  EXPECT_EQ(wire::hex_text(bytes.subspan(20, 2)), "0304");
  EXPECT_EQ(wire::hex_text(bytes.subspan(24, 4)), "000007fc");  // 2044
  EXPECT_TRUE(std::ranges::equal(bytes.subspan(28), ByteSpan{packet}.first(548)));
}

TEST(IpoibTooBig, TellsAnIpv6SenderTheMtu) {  // R-IPOIB-13
  const auto packet = make_packet(ip("fd00::1"), ip("fd00::2"), 1, 3000);
  const auto answer = make_too_big(packet, 2044);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->size(), 1280U);
  const ByteSpan bytes{*answer};
  EXPECT_EQ(wire::icmpv6_checksum(ip("fd00::2"), ip("fd00::1"), bytes.subspan(40)), 0);
  EXPECT_EQ(wire::hex_text(bytes.subspan(40, 2)), "0200");
  EXPECT_EQ(wire::hex_text(bytes.subspan(44, 4)), "000007fc");
}

TEST(IpoibTooBig, TellsNobodyWhoMayNotBeTold) {  // RFC 1122 §3.2.2, RFC 4443 §2.4
  EXPECT_FALSE(make_too_big({}, 2044));
  EXPECT_FALSE(make_too_big(make_packet(ip("10.0.0.1"), ip("224.0.0.5"), 1, 3000), 2044));
  EXPECT_FALSE(make_too_big(make_packet(ip("0.0.0.0"), ip("10.0.0.2"), 1, 3000), 2044));
  EXPECT_FALSE(make_too_big(make_packet(ip("::"), ip("fd00::2"), 1, 3000), 2044));
  EXPECT_FALSE(make_too_big(make_packet(ip("10.0.0.1"), ip("10.0.0.2"), 1, 3000, false), 2044));
  auto error = make_packet(ip("10.0.0.1"), ip("10.0.0.2"), 1, 3000);
  error[9] = std::byte{1};   // ICMP
  error[20] = std::byte{3};  // destination unreachable
  EXPECT_FALSE(make_too_big(error, 2044));
  error[20] = std::byte{8};  // an echo request
  EXPECT_TRUE(make_too_big(error, 2044));
  auto error6 = make_packet(ip("fd00::1"), ip("fd00::2"), 1, 3000);
  error6[6] = std::byte{58};
  error6[40] = std::byte{1};
  EXPECT_FALSE(make_too_big(error6, 2044));
}

}  // namespace
}  // namespace weft::ipoib
