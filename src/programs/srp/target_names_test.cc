#include "programs/srp/target_names.h"

#include <gtest/gtest.h>

namespace weft::programs::srp {
namespace {

constexpr Guid kGuid{0x0002'C903'0000'0001};

TEST(SrpTargetNames, ANameIsTheIdentifierExtension) {
  const auto names = names_of({.name = "0x1f"}, kGuid);
  ASSERT_TRUE(names) << names.error().reason;
  EXPECT_EQ(names->port_id, port_id_of(0x1F, kGuid));
  EXPECT_EQ(extension_of(names->port_id), 0x1FU);
  EXPECT_EQ(guid_of(names->port_id), kGuid);
  EXPECT_TRUE(names->allowed.empty());
}

TEST(SrpTargetNames, WithoutANameTheExtensionIsTheGuid) {
  EXPECT_EQ(names_of({}, kGuid)->port_id, port_id_of(kGuid.value(), kGuid));
}

TEST(SrpTargetNames, InitiatorsAreIdentifiersGuidsAndAddresses) {
  const auto names = names_of(
      {
          .initiators = {"0x01", "0002:c903:0000:0002", "127.77.0.2"}
  },
      kGuid);
  ASSERT_TRUE(names) << names.error().reason;
  ASSERT_EQ(names->allowed.size(), 3U);
  EXPECT_TRUE(weft::srp::matches(names->allowed[2], {.ip = IpAddress::v4(0x7F4D'0002)}));
}

TEST(SrpTargetNames, RefusesOtherNamesAndSecrets) {
  EXPECT_FALSE(names_of({.name = "iqn.2026-01.org.example:disks"}, kGuid));
  EXPECT_FALSE(names_of({.name = "11112222333344445"}, kGuid));
  EXPECT_FALSE(names_of({.initiators = {"somebody"}}, kGuid));
  EXPECT_FALSE(names_of({.chap_file = "secrets"}, kGuid));
}

}  // namespace
}  // namespace weft::programs::srp
