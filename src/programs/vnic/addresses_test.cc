#include "programs/vnic/addresses.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace weft::programs::vnic {
namespace {

std::vector<std::string> texts_of(const std::vector<std::string>& of_eth0) {
  std::vector<IpAddress> addresses;
  for (const std::string& text : of_eth0) {
    addresses.push_back(parse_ip_address(text).value());
  }
  std::vector<std::string> texts;
  const auto made = opa0_addresses(addresses);
  for (const InterfaceAddress& address : made.value_or(std::vector<InterfaceAddress>{})) {
    texts.push_back(to_string(address));
  }
  return texts;
}

TEST(Opa0Addresses, AreThoseOfEth0WithOtherPrefixes) {
  EXPECT_EQ(texts_of({"127.77.0.1", "fd77::1", "fe80::b893:71ff:fe81:d2de"}),
            (std::vector<std::string>{"10.78.0.1/16", "fd77:16b::1/64"}));
  EXPECT_EQ(texts_of({"127.77.1.44"}), std::vector<std::string>{"10.78.1.44/16"});
}

TEST(Opa0Addresses, AreNotMadeOfOthers) {
  EXPECT_TRUE(texts_of({"127.78.0.1", "10.0.0.1", "fd77:0:0:0:1::1", "fd78::1"}).empty());
  EXPECT_NE(opa0_addresses({}).error().reason.find("--address"), std::string::npos);
}

}  // namespace
}  // namespace weft::programs::vnic
