#include "ulp/srp/root_path.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ulp/srp/port_name.h"

namespace weft::srp {
namespace {

const std::string kPath =
    "ib_srp:fe800000000000000002c90300001234:0000000000000001:0002c90300001233:"
    "fe800000000000000002c9030000abcd:8001:0002c9030000abcc:0001000000000000:"
    "0002c9030000abcc:0002c9030000abcc";

TEST(SrpRootPath, NamesASession) {  // R-SRPI-9
  const auto session = parse_root_path(kPath);
  ASSERT_TRUE(session.has_value()) << session.error().reason;
  EXPECT_EQ(session->source_gid, Gid(kDefaultGidPrefix, Guid{0x0002'C903'0000'1234}));
  EXPECT_EQ(session->destination_gid, Gid(kDefaultGidPrefix, Guid{0x0002'C903'0000'ABCD}));
  EXPECT_EQ(session->pkey, PKey{0x8001});
  EXPECT_EQ(session->service_id, 0x0002'C903'0000'ABCCU);
  EXPECT_EQ(session->lun, 1ULL << 48);
  EXPECT_EQ(session->initiator_port_id, *parse_port_id("00000000000000010002c90300001233"));
  EXPECT_EQ(session->target_port_id, *parse_port_id("0002c9030000abcc0002c9030000abcc"));
  EXPECT_EQ(to_root_path(*session), kPath);
}

TEST(SrpRootPath, EmptyAndMissingFieldsStayAsTheyWere) {  // R-SRPI-9
  BootSession defaults;
  defaults.service_id = 7;
  const auto session =
      parse_root_path("ib_srp::::fe80-0000-0000-0000-0002-c903-0000-abcd", defaults);
  ASSERT_TRUE(session.has_value()) << session.error().reason;
  EXPECT_EQ(session->service_id, 7U);
  EXPECT_EQ(session->pkey, kDefaultPKey);
  EXPECT_EQ(session->destination_gid, Gid(kDefaultGidPrefix, Guid{0x0002'C903'0000'ABCD}));
  EXPECT_EQ(parse_root_path("ib_srp:")->lun, 0U);
}

TEST(SrpRootPath, RefusesWhatIsNone) {
  for (const std::string& path :
       {std::string{"iscsi:"}, std::string{"ib_srp"}, std::string{"ib_srp:xyz"},
        std::string{"ib_srp:::::18001"}, std::string{"ib_srp:::::0x80"}, kPath + ":1"}) {
    const auto session = parse_root_path(path);
    ASSERT_FALSE(session.has_value()) << path;
    EXPECT_EQ(session.error().code, ErrorCode::InvalidArgument);
  }
}

TEST(SrpBootTable, HandsTheSessionOver) {  // R-SRPI-9
  const BootSession session = *parse_root_path(kPath);
  const auto table = to_boot_table(session);
  ASSERT_EQ(table.size(), 136U);
  unsigned sum = 0;
  for (const std::byte octet : table) {
    sum += std::to_integer<unsigned>(octet);
  }
  EXPECT_EQ(sum % 256, 0U);
  EXPECT_EQ(table[4], std::byte{136});  // lowest octet first
  EXPECT_EQ(table[36], std::byte{48});
  EXPECT_EQ(table[38], std::byte{56});
  EXPECT_EQ(table[40], std::byte{88});
  EXPECT_EQ(table[88 + 40], std::byte{0x80});  // the P_Key, in network order
  EXPECT_EQ(parse_boot_table(table), session);
}

TEST(SrpBootTable, RefusesWhatIsDamaged) {
  const auto whole = to_boot_table(*parse_root_path(kPath));
  for (const std::size_t octet :
       {std::size_t{0}, std::size_t{4}, std::size_t{37}, std::size_t{60}}) {
    auto table = whole;
    table[octet] ^= std::byte{0x40};
    EXPECT_FALSE(parse_boot_table(table).has_value()) << octet;
  }
  EXPECT_FALSE(parse_boot_table(ByteSpan{whole}.first(135)).has_value());
  EXPECT_FALSE(parse_boot_table(ByteSpan{whole}.first(20)).has_value());
  auto moved = whole;  // the part would not fit; the checksum is right
  moved[36] = std::byte{136};
  moved[9] = static_cast<std::byte>(std::to_integer<unsigned>(moved[9]) + 48 - 136);
  EXPECT_FALSE(parse_boot_table(moved).has_value());
}

}  // namespace
}  // namespace weft::srp
