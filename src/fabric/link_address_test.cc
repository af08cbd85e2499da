#include "fabric/link_address.h"

#include <gtest/gtest.h>

namespace weft::fabric {
namespace {

TEST(LinkAddress, HasTheBodyOfItsLink) {
  const LinkAddress lids{Lid{1}, Lid{2}};
  EXPECT_EQ(lids.type(), LinkType::InfiniBand);
  ASSERT_NE(lids.lids(), nullptr);
  EXPECT_EQ(*lids.lids(), (LidPair{Lid{1}, Lid{2}}));
  EXPECT_EQ(lids.extended_lids(), nullptr);

  const LinkAddress extended{
      ExtendedLidPair{ExtendedLid{0x1'0001}, ExtendedLid{0xF0'0000}}
  };
  EXPECT_EQ(extended.type(), LinkType::OmniPath);
  ASSERT_NE(extended.extended_lids(), nullptr);
  EXPECT_EQ(extended.extended_lids()->destination, ExtendedLid{0xF0'0000});
  EXPECT_EQ(extended.lids(), nullptr);

  const MacAddress mac{2, 0, 0, 0, 0, 1};
  const LinkAddress ethernet{
      MacAddressPair{.source = {}, .destination = mac}
  };
  EXPECT_EQ(ethernet.type(), LinkType::Ethernet);
  ASSERT_NE(ethernet.mac_addresses(), nullptr);
  EXPECT_EQ(ethernet.mac_addresses()->destination, mac);
  EXPECT_NE(ethernet, extended);
}

TEST(LinkType, IsFoundByItsNameAndByTheWordOfFiles) {
  for (const LinkType type : {LinkType::InfiniBand, LinkType::Ethernet, LinkType::OmniPath}) {
    EXPECT_EQ(find_link_type(name_of(type)), type);
    EXPECT_EQ(find_link_type(key_of(type)), type);
  }
  EXPECT_EQ(key_of(LinkType::OmniPath), "opa");
  EXPECT_FALSE(find_link_type("token-ring"));
  EXPECT_FALSE(find_link_type("reserved"));
}

TEST(ExtendedLid, HasTheRangesOfOmniPath) {
  EXPECT_FALSE(ExtendedLid{}.is_unicast());
  EXPECT_TRUE(ExtendedLid{1}.is_unicast());
  EXPECT_TRUE(ExtendedLid{0xC000}.is_unicast());  // where InfiniBand's groups begin
  EXPECT_TRUE(ExtendedLid{0xEF'FFFF}.is_unicast());
  EXPECT_FALSE(ExtendedLid{0xEF'FFFF}.is_multicast());
  EXPECT_TRUE(ExtendedLid{0xF0'0000}.is_multicast());
  EXPECT_FALSE(ExtendedLid{0xF0'0000}.is_unicast());
  EXPECT_TRUE(ExtendedLid{0xF7'FFFF}.is_multicast());
  EXPECT_FALSE(ExtendedLid{0xF8'0000}.is_multicast());
  EXPECT_TRUE(ExtendedLid{0xFF'FFFF}.is_permissive());
  EXPECT_FALSE(ExtendedLid{0xFF'FFFE}.is_permissive());
}

}  // namespace
}  // namespace weft::fabric
