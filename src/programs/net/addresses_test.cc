#include "programs/net/addresses.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace weft::programs::net {
namespace {

std::vector<std::string> texts_of(const std::vector<std::string>& of_eth0) {
  std::vector<IpAddress> addresses;
  for (const std::string& text : of_eth0) {
    addresses.push_back(parse_ip_address(text).value());
  }
  std::vector<std::string> texts;
  const auto made = ib_addresses(0, addresses);
  for (const InterfaceAddress& address : made.value_or(std::vector<InterfaceAddress>{})) {
    texts.push_back(to_string(address));
  }
  return texts;
}

TEST(Ib0Addresses, AreThoseOfEth0WithOtherPrefixes) {  // R-IPOIB-21
  EXPECT_EQ(texts_of({"127.77.0.1", "fd77::1", "fe80::b893:71ff:fe81:d2de"}),
            (std::vector<std::string>{"10.77.0.1/16", "fd77:1b::1/64"}));
  EXPECT_EQ(texts_of({"127.77.1.44"}), std::vector<std::string>{"10.77.1.44/16"});
}

TEST(Ib0Addresses, OfAChildNameItsPartition) {  // R-IPOIB-19
  const std::vector of_eth0{parse_ip_address("127.77.0.1").value(),
                            parse_ip_address("fd77::1").value()};
  std::vector<std::string> texts;
  for (const InterfaceAddress& address : child_addresses(0, PKey{0x8005}, of_eth0).value()) {
    texts.push_back(to_string(address));
  }
  EXPECT_EQ(texts, std::vector<std::string>{"fd77:1b:0:8005::1/64"});
}

TEST(Ib0Addresses, OfAnotherPortAreOthers) {  // R-IPOIB-30
  const std::vector of_eth0{parse_ip_address("127.77.0.1").value(),
                            parse_ip_address("fd77::1").value()};
  std::vector<std::string> texts;
  for (const InterfaceAddress& address : ib_addresses(1, of_eth0).value()) {
    texts.push_back(to_string(address));
  }
  for (const InterfaceAddress& address : child_addresses(1, PKey{0x8005}, of_eth0).value()) {
    texts.push_back(to_string(address));
  }
  EXPECT_EQ(texts,
            (std::vector<std::string>{"10.78.0.1/16", "fd77:1b:1::1/64", "fd77:1b:1:8005::1/64"}));
}

TEST(Ib0Addresses, OnTheLinkAreThePortsGuidWithTheUniversalBit) {  // R-IPOIB-21
  EXPECT_EQ(to_string(link_local_address(Guid{0x0002'C903'0001'0203})), "fe80::202:c903:1:203/64");
  EXPECT_EQ(to_string(link_local_address(Guid{0x0202'C903'0001'0203})), "fe80::202:c903:1:203/64");
}

TEST(Ib0Addresses, AreNotMadeOfOthers) {
  EXPECT_TRUE(texts_of({"127.78.0.1", "10.0.0.1", "fd77:0:0:0:1::1", "fd78::1"}).empty());
  EXPECT_NE(ib_addresses(0, {}).error().reason.find("--address"), std::string::npos);
}

TEST(Ib0Addresses, AreTentativeAsTheKernelSays) {
  constexpr std::string_view kText =
      "00000000000000000000000000000001 01 80 10 80       lo\n"
      "fd77001b000000000000000000000002 03 40 00 c0      ib0\n"
      "fe800000000000000257461000020001 03 40 20 80      ib0\n"
      "fd77001b000100000000000000000002 0a 40 00 80      ib1\n";
  const auto is_tentative = [&](std::string_view interface) {
    std::istringstream text{std::string{kText}};
    return has_tentative_address(text, interface);
  };
  EXPECT_TRUE(is_tentative("ib0"));
  EXPECT_FALSE(is_tentative("ib1"));
  EXPECT_FALSE(is_tentative("lo"));
  EXPECT_FALSE(is_tentative("ib2"));
}

}  // namespace
}  // namespace weft::programs::net
