#include "ulp/rsocket/datagram_name.h"

#include <gtest/gtest.h>

namespace weft::rsockets {
namespace {

constexpr IpAddress kV4 = IpAddress::v4(0x7F4D'0001);
constexpr IpAddress kV6 = IpAddress::v6(0xFD77'0000'0000'0000, 1);
constexpr DatagramFamily kOf4{.family = IpFamily::V4, .is_v6_only = false};
constexpr DatagramFamily kOf6{.family = IpFamily::V6, .is_v6_only = false};
constexpr DatagramFamily kOf6Only{.family = IpFamily::V6, .is_v6_only = true};

AddressBook book() {
  return {.ipv4_beside = [](const IpAddress&) { return std::optional{kV4}; },
          .ipv6_beside = [](const IpAddress&) { return std::optional{kV6}; }};
}

IpAddress parsed(std::string_view text) { return *parse_ip_address(text); }

TEST(DatagramName, OfTheOwnHostIsAnyLoopbackThatIsNoHosts) {
  for (const char* const own : {"0.0.0.0", "::", "127.0.0.1", "127.0.255.1", "::1"}) {
    EXPECT_TRUE(is_own_or_loopback(parsed(own))) << own;
  }
  for (const char* const other : {"127.77.0.1", "127.1.0.1", "10.0.0.1", "fd77::1", "::2"}) {
    EXPECT_FALSE(is_own_or_loopback(parsed(other))) << other;
  }
}

TEST(OwnNames, OfASocketThatLeavesTheChoiceAreOfTheFamiliesThatItSpeaks) {
  const OwnNames of4 = names_beside(kV4, kOf4, book());
  EXPECT_EQ(of4.v4, kV4);
  EXPECT_FALSE(of4.v6);
  const OwnNames of6 = names_beside(kV4, kOf6, book());
  EXPECT_EQ(of6.v4, kV4);
  EXPECT_EQ(of6.v6, kV6);
  EXPECT_EQ(of6.main().address, kV6);
  const OwnNames of6_only = names_beside(kV4, kOf6Only, book());
  EXPECT_FALSE(of6_only.v4);
  EXPECT_EQ(of6_only.v6, kV6);
}

TEST(OwnNames, OfNoAddressAreOfBothFamiliesAndKeepThePort) {
  const OwnNames names = names_of_whatever({.address = parsed("::"), .port = 7}, kV4, kOf6, book());
  EXPECT_EQ(names.v4, kV4);
  EXPECT_EQ(names.v6, kV6);
  EXPECT_EQ(names.port, 7);
}

TEST(OwnNames, OfTheIpv6LoopbackAddressAreOfBothFamiliesUnlessTheSocketIsOfIpv6Alone) {
  const DatagramName loopback{.address = parsed("::1"), .port = 7};
  const OwnNames names = names_of_whatever(loopback, kV4, kOf6, book());
  EXPECT_EQ(names.v4, kV4);
  EXPECT_EQ(names.v6, kV6);
  EXPECT_FALSE(names_of_whatever(loopback, kV4, kOf6Only, book()).v4);
}

TEST(OwnNames, OfAnIpv4AddressAreOfIpv4Alone) {
  const OwnNames names =
      names_of_whatever({.address = parsed("127.0.0.1"), .port = 7}, kV4, kOf6, book());
  EXPECT_EQ(names.v4, kV4);
  EXPECT_FALSE(names.v6);
}

TEST(OwnNames, OfAnAddressThatAProgramChoseAreThatAddress) {
  const OwnNames names = names_of({.address = kV6, .port = 7});
  EXPECT_FALSE(names.of(IpFamily::V4));
  EXPECT_EQ(names.of(IpFamily::V6), kV6);
  EXPECT_EQ(names.main(), (DatagramName{.address = kV6, .port = 7}));
}

}  // namespace
}  // namespace weft::rsockets
