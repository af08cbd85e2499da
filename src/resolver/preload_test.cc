#include "resolver/preload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weft::resolver {
namespace {

const Gid kHere{kDefaultGidPrefix, Guid{0x11}};
const Gid kThere{kDefaultGidPrefix, Guid{0x22}};

TEST(Preload, KnowsAddressesNamesAndPaths) {  // part of R-NL-8
  const auto read = parse_preload(
      "# hosts as ibacm writes them\n"
      "127.77.0.2\tfe80::22\r\n"
      "fd77::2 fe80::22  # the same\n"
      "\n"
      "storage-7 fe80::22\n"
      "path sgid=fe80::11 dgid=fe80::22 dlid=0x107 slid=3 pkey=0x8123 sl=5 mtu=4 rate=7 "
      "lifetime=18 service=0x0102030405060708 tclass=9 qos=0x123");
  ASSERT_TRUE(read.has_value()) << read.error().reason;
  EXPECT_EQ(read->addresses.at(IpAddress::v4(0x7F4D'0002)), kThere);
  EXPECT_EQ(read->addresses.at(IpAddress::v6(0xFD77'0000'0000'0000, 2)), kThere);
  EXPECT_EQ(read->names.at("storage-7"), kThere);
  ASSERT_EQ(read->paths.size(), 1U);
  EXPECT_EQ(read->paths[0].asked, (sa::PathQuery{.sgid = kHere,
                                                 .dgid = kThere,
                                                 .pkey = PKey{0x8123},
                                                 .service_id = 0x0102030405060708,
                                                 .tclass = 9,
                                                 .qos_class = 0x123}));
  const wire::PathRecord& path = read->paths[0].path;
  EXPECT_EQ(path.dlid, Lid{0x107});
  EXPECT_EQ(path.slid, Lid{3});
  EXPECT_EQ(path.sl, ServiceLevel{5});
  EXPECT_EQ(path.service_id(), 0x0102030405060708U);
  EXPECT_EQ(path.rate, 7);
  EXPECT_TRUE(path.reversible);
}

TEST(Preload, SaysWhichLineIsNone) {
  for (const char* const bad : {"127.0.0.1", "127.0.0.1 10.0.0.1", "name fe80::1 more", "path",
                                "path sgid=fe80::1", "path sgid=fe80::1 dgid=fe80::2 slid=1 dlid=0",
                                "path sgid=fe80::1 dgid=fe80::2 slid=1 dlid=0xC000",
                                "path sgid=fe80::1 dgid=fe80::2 slid=1 dlid=2 sl=16",
                                "path sgid=fe80::1 dgid=fe80::2 slid=1 dlid=2 sl=x",
                                "path sgid=1 dgid=fe80::2", "path colour=7", "path sl"}) {
    const auto read = parse_preload(std::string{"# first\n"} + bad + "\n");
    ASSERT_FALSE(read.has_value()) << bad;
    EXPECT_THAT(read.error().reason, ::testing::StartsWith("line 2: ")) << bad;
  }
  EXPECT_TRUE(parse_preload("").has_value());
}

}  // namespace
}  // namespace weft::resolver
