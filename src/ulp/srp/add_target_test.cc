#include "ulp/srp/add_target.h"

#include <gtest/gtest.h>

#include <string>

namespace weft::srp {
namespace {

const std::string kLine =
    "id_ext=0000000000000005,ioc_guid=0257461000010000,dgid=fe800000000000000257461000010001,"
    "pkey=ffff,service_id=00000000013f15b3";

TEST(SrpAddTarget, IsWhatSrpDaemonWrites) {
  // -e adds the retries, -n the initiator's extension.
  const auto made = parse_add_target(kLine + ",initiator_ext=0257461000010001,tl_retry_count=2\n");
  ASSERT_TRUE(made) << made.error().reason;
  const AddTarget expected{
      .id_ext = 5,
      .ioc_guid = Guid{0x0257'4610'0001'0000},
      .destination_gid = Gid{0xFE80'0000'0000'0000, Guid{0x0257'4610'0001'0001}},
      .pkey = PKey{0xFFFF},
      .service_id = 0x013F'15B3,
      .initiator_ext = 0x0257'4610'0001'0001
  };
  EXPECT_EQ(*made, expected);
  const wire::SrpPortId id = made->target_port_id();
  EXPECT_EQ(id[7], std::byte{5});
  EXPECT_EQ(id[8], std::byte{0x02});
}

TEST(SrpAddTarget, MayNameAnAddressInsteadOfAPort) {
  const auto made = parse_add_target("id_ext=5,ioc_guid=0x7,dest=10.77.0.1:5555");
  ASSERT_TRUE(made) << made.error().reason;
  EXPECT_EQ(made->destination, "10.77.0.1:5555");
  EXPECT_TRUE(made->destination_gid.is_zero());
}

TEST(SrpAddTarget, OfRevision10HasItsHalvesTheOtherWayRound) {
  const auto old = parse_add_target(kLine + ",io_class=ff00");
  ASSERT_TRUE(old) << old.error().reason;
  EXPECT_TRUE(old->is_revision_10);
  EXPECT_EQ(old->target_port_id()[15], std::byte{5});
  EXPECT_EQ(old->target_port_id()[0], std::byte{0x02});
}

TEST(SrpAddTarget, IsRefusedInWords) {
  const auto reason = [](const std::string& line) {
    const auto made = parse_add_target(line);
    return made ? std::string{} : made.error().reason;
  };
  EXPECT_NE(reason("").find("is no target"), std::string::npos);
  EXPECT_NE(reason("id_ext=5,ioc_guid=7").find("is no target"), std::string::npos);
  EXPECT_NE(reason(kLine + ",dest=h:1").find("is no target"), std::string::npos);
  EXPECT_NE(reason(kLine + ",retries=2").find("'retries=2' is no parameter"), std::string::npos);
  EXPECT_NE(reason(kLine + ",max_sect").find("'max_sect' is no parameter"), std::string::npos);
  for (const char* const wrong :
       {"pkey=10000", "pkey=", "service_id=0x", "id_ext=-5", "tl_retry_count=8", "io_class=0200",
        "dgid=fe80", "dgid=fe80000000000000025746100001000g",
        "dgid=0x800000000000000257461000010001", "allow_ext_sg=yes", "id_ext=12345678901234567"}) {
    EXPECT_NE(reason(kLine + "," + wrong).find("another form"), std::string::npos) << wrong;
  }
  EXPECT_NE(reason("id_ext=5,ioc_guid=7,dest=h").find("another form"), std::string::npos);
}

TEST(SrpAddTarget, OfASecondLoginToTheSamePortIsTheSameSession) {
  const auto first = parse_add_target(kLine);
  const auto again = parse_add_target(kLine + ",pkey=7fff,max_sect=8");
  const auto other = parse_add_target(kLine + ",initiator_ext=1");
  ASSERT_TRUE(first && again && other);
  EXPECT_TRUE(first->is_same_session(*again));
  EXPECT_FALSE(first->is_same_session(*other));
}

}  // namespace
}  // namespace weft::srp
