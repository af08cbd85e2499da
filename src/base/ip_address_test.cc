#include "base/ip_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/random.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

IpAddress ip(std::string_view text) { return parse_ip_address(text).value(); }

TEST(IpAddress, IsReadAsPeopleWriteIt) {  // RFC 4291 §2.2
  EXPECT_EQ(ip("127.77.0.1"), IpAddress::v4(0x7F4D'0001));
  EXPECT_EQ(ip("255.255.255.255"), IpAddress::v4(0xFFFF'FFFF));
  EXPECT_EQ(ip("::"), IpAddress::v6(0, 0));
  EXPECT_EQ(ip("::1"), IpAddress::v6(0, 1));
  EXPECT_EQ(ip("fd77::1"), IpAddress::v6(0xFD77'0000'0000'0000, 1));
  EXPECT_EQ(ip("1:2:3:4:5:6:7:8"), IpAddress::v6(0x0001'0002'0003'0004, 0x0005'0006'0007'0008));
  EXPECT_EQ(ip("2001:DB8::8:800:200C:417A"),
            IpAddress::v6(0x2001'0DB8'0000'0000, 0x0008'0800'200C'417A));
  EXPECT_EQ(ip("1:2:3:4:5:6:7::"), IpAddress::v6(0x0001'0002'0003'0004, 0x0005'0006'0007'0000));
  EXPECT_EQ(ip("::ffff:129.144.52.38"), IpAddress::v6(0, 0x0000'FFFF'8190'3426));
  EXPECT_EQ(ip("64:ff9b::192.0.2.33"), IpAddress::v6(0x0064'FF9B'0000'0000, 0xC000'0221));
}

TEST(IpAddress, RefusesWhatIsNone) {
  for (const char* wrong : {"",
                            "1",
                            "1.2.3",
                            "1.2.3.4.5",
                            "256.1.1.1",
                            "1.2.3.04",
                            "1..2.3",
                            "1.2.3.",
                            ".1.2.3",
                            "+1.2.3.4",
                            "-1.2.3.4",
                            " 1.2.3.4",
                            "1.2.3.4 ",
                            ":",
                            ":::",
                            "1:2",
                            "1::2::3",
                            "12345::",
                            "1:2:3:4:5:6:7:8:9",
                            "1:2:3:4:5:6:7:8::",
                            ":1::2",
                            "1::2:",
                            "g::1",
                            "::1.2.3",
                            "1.2.3.4::",
                            "fe80::1%ib0",
                            "::-1",
                            "localhost",
                            "1:2:3:4:5:6:7:1.2.3.4",
                            "::1.2.3.4:5"}) {
    const auto parsed = parse_ip_address(wrong);
    ASSERT_FALSE(parsed.has_value()) << wrong;
    EXPECT_THAT(parsed.error().reason, HasSubstr("not an IPv4 or IPv6"));
  }
}

TEST(IpAddress, IsWrittenInTheShortestForm) {  // RFC 5952 §4
  for (const char* text :
       {"0.0.0.0", "127.77.255.255", "::", "::1", "1::", "2001:db8::1", "2001:db8:0:1:1:1:1:1",
        "2001:0:0:1::1", "2001:db8::1:0:0:1", "::ffff:192.0.2.1", "fe80::257:4600:1:1"}) {
    EXPECT_EQ(to_string(ip(text)), text);
  }
  EXPECT_EQ(to_string(ip("2001:0db8:0:0:0:0:0:0001")), "2001:db8::1");
}

TEST(IpAddress, RoundTrips) {
  Random random{1};
  for (int i = 0; i < 10'000; ++i) {
    const auto sparse = [&] { return random() & random() & random(); };  // with runs of zeros
    const IpAddress v6 = IpAddress::v6(sparse() & (random.chance(1, 4) ? 0 : ~0ULL), sparse());
    ASSERT_EQ(ip(to_string(v6)), v6);
    const IpAddress v4 = IpAddress::v4(static_cast<std::uint32_t>(random()));
    ASSERT_EQ(ip(to_string(v4)), v4);
  }
}

TEST(IpAddress, KnowsItsScope) {
  EXPECT_TRUE(ip("127.0.0.1").is_loopback());
  EXPECT_TRUE(ip("127.77.0.1").is_loopback());
  EXPECT_FALSE(ip("128.0.0.1").is_loopback());
  EXPECT_TRUE(ip("::1").is_loopback());
  EXPECT_FALSE(ip("::2").is_loopback());
  EXPECT_TRUE(ip("224.0.0.1").is_multicast());
  EXPECT_FALSE(ip("240.0.0.1").is_multicast());
  EXPECT_TRUE(ip("ff02::1").is_multicast());
  EXPECT_TRUE(ip("fe80::1").is_link_local());
  EXPECT_TRUE(ip("febf::1").is_link_local());
  EXPECT_FALSE(ip("fec0::1").is_link_local());
  EXPECT_TRUE(ip("169.254.1.1").is_link_local());
  EXPECT_TRUE(ip("0.0.0.0").is_unspecified());
  EXPECT_TRUE(ip("::").is_unspecified());
  EXPECT_TRUE(ip("255.255.255.255").is_limited_broadcast());
  EXPECT_FALSE(ip("ffff:ffff:ffff:ffff::").is_limited_broadcast());
}

TEST(IpAddress, MappedIsItsIpv4Address) {  // RFC 4291 §2.5.5.2
  EXPECT_EQ(ip("::ffff:127.77.0.1").unmapped(), ip("127.77.0.1"));
  EXPECT_EQ(ip("::fffe:127.77.0.1").unmapped(), ip("::fffe:127.77.0.1"));
  EXPECT_EQ(ip("::127.77.0.1").unmapped(), ip("::127.77.0.1"));
  EXPECT_EQ(ip("10.0.0.1").unmapped(), ip("10.0.0.1"));
}

TEST(IpAddress, HasAnOrderWithIpv4First) {
  EXPECT_LT(ip("255.255.255.255"), ip("::"));
  EXPECT_LT(ip("10.0.0.1"), ip("10.0.1.0"));
  EXPECT_NE(IpAddress::v4(0), IpAddress::v6(0, 0));
}

TEST(InterfaceAddress, CoversItsNeighbours) {
  const InterfaceAddress own = parse_interface_address("10.1.2.3/22").value();
  EXPECT_TRUE(own.covers(ip("10.1.0.255")));
  EXPECT_FALSE(own.covers(ip("10.1.4.1")));
  EXPECT_FALSE(own.covers(ip("::ffff:10.1.2.3")));
  EXPECT_TRUE(parse_interface_address("10.1.2.3/0")->covers(ip("99.0.0.1")));
  EXPECT_TRUE(parse_interface_address("fd77::1/48")->covers(ip("fd77::ffff:0:0:1")));
  EXPECT_FALSE(parse_interface_address("fd77::1/48")->covers(ip("fd77:0:1::1")));
  EXPECT_EQ(parse_interface_address("10.0.0.1")->prefix_bits, 24);
  EXPECT_EQ(parse_interface_address("fd00::1")->prefix_bits, 64);
  EXPECT_EQ(to_string(own), "10.1.2.3/22");
  EXPECT_EQ(common_prefix(ip("::"), ip("::")), 128U);
}

TEST(InterfaceAddress, RefusesAPrefixThatIsTooLong) {
  EXPECT_THAT(parse_interface_address("10.0.0.1/33").error().reason, HasSubstr("0 to 32 bits"));
  EXPECT_THAT(parse_interface_address("::1/129").error().reason, HasSubstr("0 to 128 bits"));
  EXPECT_FALSE(parse_interface_address("10.0.0.1/").has_value());
  EXPECT_FALSE(parse_interface_address("10.0.0.1/a").has_value());
  EXPECT_FALSE(parse_interface_address("/24").has_value());
}

}  // namespace
}  // namespace weft
