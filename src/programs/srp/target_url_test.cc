#include "programs/srp/target_url.h"

#include <gtest/gtest.h>

#include "programs/srp/target_names.h"

namespace weft::programs::srp {
namespace {

TEST(SrpTargetUrl, NamesALogicalUnit) {
  const auto url = parse_target_url("srp://127.77.0.1:6000/00000000000000010002c90300000001/3");
  ASSERT_TRUE(url) << url.error().reason;
  EXPECT_EQ(url->address, "127.77.0.1:6000");
  EXPECT_EQ(url->port_id, port_id_of(1, Guid{0x0002'C903'0000'0001}));
  EXPECT_EQ(url->lun, 3);
}

TEST(SrpTargetUrl, OneNumberIsExtensionAndGuid) {
  const auto url = parse_target_url("srp://127.77.0.1/0x0002c90300000001/0");
  ASSERT_TRUE(url) << url.error().reason;
  EXPECT_EQ(url->address, "127.77.0.1:5555");
  EXPECT_EQ(url->port_id, port_id_of(0x0002'C903'0000'0001, Guid{0x0002'C903'0000'0001}));
}

TEST(SrpTargetUrl, AnIpv6AddressKeepsItsBrackets) {
  EXPECT_EQ(parse_target_url("srp://[fe80::1]/0002c90300000001/0")->address, "[fe80::1]:5555");
  EXPECT_EQ(parse_target_url("srp://[fe80::1]:7/0002c90300000001/0")->address, "[fe80::1]:7");
}

TEST(SrpTargetUrl, RefusesWhatIsNone) {
  for (const char* const text :
       {"iser://h/0002c90300000001/0", "srp://h/0002c90300000001", "srp:///0002c90300000001/0",
        "srp://h/0002c903000001/0", "srp://h/0002c9030000000g/0", "srp://h/0002c90300000001/",
        "srp://h/0002c90300000001/1x", "srp://h/0002c90300000001/70000"}) {
    EXPECT_FALSE(parse_target_url(text)) << text;
  }
}

}  // namespace
}  // namespace weft::programs::srp
