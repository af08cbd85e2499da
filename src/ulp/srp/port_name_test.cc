#include "ulp/srp/port_name.h"

#include <gtest/gtest.h>

namespace weft::srp {
namespace {

TEST(SrpPortName, FewerDigitsStandForTheLastOctets) {  // R-SRPT-21
  wire::SrpPortId id{};
  id[14] = std::byte{0xAB};
  id[15] = std::byte{0xCD};
  EXPECT_EQ(parse_port_id("0xabcd"), id);
  EXPECT_EQ(parse_port_id("ABCD"), id);
  EXPECT_EQ(to_string(id), "0x0000000000000000000000000000abcd");
  EXPECT_EQ(parse_port_id(to_string(id)), id);
}

TEST(SrpPortName, RefusesOddAndForeignDigits) {  // R-SRPT-21
  for (const char* const name :
       {"", "0x", "abc", "0xabg0", "zz", "00000000000000000000000000000000ab"}) {
    const auto id = parse_port_id(name);
    ASSERT_FALSE(id.has_value()) << name;
    EXPECT_EQ(id.error().code, ErrorCode::InvalidArgument);
  }
}

TEST(SrpAccessList, MatchesIdentifiersGuidsAndAddresses) {  // R-SRPT-21
  Initiator initiator{
      .port_id = *parse_port_id("0x01"),
      .gid = Gid{kDefaultGidPrefix, Guid{0x0002'C903'0000'ABCD}},
      .ip = IpAddress::v4(0x0A4D'0002)
  };
  for (const char* const name : {"0x01", "0002:c903:0000:abcd", "10.77.0.2"}) {
    AccessList list;
    EXPECT_FALSE(list.allows(initiator));
    const auto parsed = parse_access_name(name);
    ASSERT_TRUE(parsed.has_value()) << name;
    EXPECT_TRUE(list.allow(*parsed).has_value());
    EXPECT_FALSE(list.allow(*parsed).has_value());
    EXPECT_TRUE(list.allows(initiator)) << name;
    EXPECT_FALSE(list.allows(Initiator{}));
    EXPECT_TRUE(list.withdraw(*parsed).has_value());
    EXPECT_FALSE(list.allows(initiator));
    EXPECT_FALSE(list.withdraw(*parsed).has_value());
  }
  EXPECT_FALSE(parse_access_name("nobody").has_value());
  AccessList open;
  open.allow_anybody(true);
  EXPECT_TRUE(open.allows(Initiator{}));
}

}  // namespace
}  // namespace weft::srp
