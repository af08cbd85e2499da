#include "wire/ipoib/mgid.h"

#include <gtest/gtest.h>

#include <string_view>

#include "wire/address_text.h"

namespace weft::wire {
namespace {

std::string group(std::string_view text, PKey pkey = kDefaultPKey) {
  return address_text(ipoib_group(parse_ip_address(text).value(), pkey).octets());
}

TEST(IpoibGroup, HasTheSignatureThePartitionAndTheGroup) {  // RFC 4391 §4
  EXPECT_EQ(group("224.0.0.1"), "ff12:401b:ffff::1");
  EXPECT_EQ(group("239.255.255.255"), "ff12:401b:ffff::fff:ffff");
  EXPECT_EQ(group("ff02::1"), "ff12:601b:ffff::1");
  EXPECT_EQ(group("ff02::1:ff00:1234"), "ff12:601b:ffff::1:ff00:1234");
  EXPECT_EQ(group("ff05:1:2:3:4:5:6:7"), "ff12:601b:ffff:3:4:5:6:7");
}

TEST(IpoibGroup, NamesThePartitionAsFullMembersDo) {
  EXPECT_EQ(group("224.0.0.1", PKey{0x0001}), "ff12:401b:8001::1");
  EXPECT_EQ(group("224.0.0.1", PKey{0x8001}), "ff12:401b:8001::1");
}

TEST(IpoibGroup, OfBroadcastIsThatOfTheLink) {
  EXPECT_EQ(group("255.255.255.255"), "ff12:401b:ffff::ffff:ffff");
  EXPECT_EQ(ipoib_broadcast_group(kDefaultPKey), (Gid{0xFF12'401B'FFFF'0000, Guid{0xFFFF'FFFF}}));
  EXPECT_EQ(ipoib_broadcast_group(PKey{1}, 5), (Gid{0xFF15'401B'8001'0000, Guid{0xFFFF'FFFF}}));
}

TEST(SolicitedNodeGroup, HasTheLast24BitsOfTheAddress) {  // RFC 4291 §2.7.1
  EXPECT_EQ(solicited_node_group(parse_ip_address("4037::1:800:200e:8c6c").value()),
            parse_ip_address("ff02::1:ff0e:8c6c").value());
  EXPECT_EQ(all_nodes_group(), parse_ip_address("ff02::1").value());
}

}  // namespace
}  // namespace weft::wire
