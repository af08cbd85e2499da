#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <fstream>

#include "programs/srp/target_names.h"
#include "programs/srp/target_url.h"
#include "ulp/srp/port_name.h"

namespace weft::programs::srp {
namespace {

constexpr std::uint64_t kPrefix = 0xFE80'0000'0000'0000;
const std::string kLine =
    "id_ext=0000000000000005,ioc_guid=0257461000010000,dgid=fe800000000000000257461000010001,"
    "pkey=8001,service_id=00000000013f15b3";

TEST(SrpFindTarget, TakesTheLineThatSrpDaemonPrints) {
  const auto found = find_target(kLine + ",max_sect=65535,lun=3");
  ASSERT_TRUE(found) << found.error().reason;
  EXPECT_EQ(found->port_id, port_id_of(5, Guid{0x0257'4610'0001'0000}));
  EXPECT_EQ(found->lun, 3);
  ASSERT_TRUE(found->native);
  EXPECT_EQ(*found->native, (core::NativeAddress{
                                .gid = Gid{kPrefix, Guid{0x0257'4610'0001'0001}},
                                .pkey = PKey{0x8001},
                                .service_id = 0x13F'15B3
  }));
  EXPECT_TRUE(found->source_gid.is_zero());
  EXPECT_FALSE(found->initiator);
}

TEST(SrpFindTarget, SwapsTheHalvesOfBothIdentifiersForRevision10) {  // R-SRPI-3
  const auto old = find_target(kLine + ",initiator_ext=77,io_class=ff00");
  ASSERT_TRUE(old) << old.error().reason;
  EXPECT_EQ(weft::srp::to_string(old->port_id), "0x02574610000100000000000000000005");
  ASSERT_TRUE(old->initiator);
  EXPECT_EQ(weft::srp::to_string(*old->initiator), "0x00000000000000000000000000000077");
  EXPECT_EQ(initiator_port_id(*old, 0x77, Guid{1}), port_id_of(1, Guid{0x77}));
  const auto now = find_target(kLine + ",io_class=0x0100");
  ASSERT_TRUE(now) << now.error().reason;
  EXPECT_EQ(now->port_id, find_target(kLine)->port_id);
  EXPECT_EQ(initiator_port_id(*now, 0x77, Guid{1}), port_id_of(0x77, Guid{1}));
}

TEST(SrpFindTarget, TakesARootPathAndTheBootTableOfIt) {
  const std::string path =
      "ib_srp:fe800000000000000257461000020001:0000000000000077:0257461000020000:"
      "fe800000000000000257461000010001:ffff:00000000013f15b3:0001000000000000:0000000000000005:"
      "0257461000010000";
  const auto found = find_target(path);
  ASSERT_TRUE(found) << found.error().reason;
  EXPECT_EQ(found->lun, 1) << "of the octets of a LUN";
  EXPECT_EQ(found->source_gid, (Gid{kPrefix, Guid{0x0257'4610'0002'0001}}));
  EXPECT_EQ(found->initiator, port_id_of(0x77, Guid{0x0257'4610'0002'0000}));

  std::array<char, 32> name{"/tmp/weft-sbft-XXXXXX"};
  const int file = mkstemp(name.data());
  ASSERT_GE(file, 0);
  const auto table = weft::srp::to_boot_table(*weft::srp::parse_root_path(path));
  ASSERT_EQ(write(file, table.data(), table.size()), static_cast<ssize_t>(table.size()));
  close(file);
  const auto again = find_target(std::string{"sbft:"} + name.data());
  unlink(name.data());
  ASSERT_TRUE(again) << again.error().reason;
  EXPECT_EQ(again->native, found->native);
  EXPECT_EQ(again->port_id, found->port_id);
  EXPECT_EQ(again->initiator, found->initiator);
  EXPECT_EQ(again->lun, found->lun);
}

TEST(SrpFindTarget, RefusesWhatLeadsNowhere) {
  for (const std::string& text :
       {std::string{"id_ext=5,ioc_guid=1"}, std::string{"ib_srp:"}, std::string{"ib_srp:xyz"},
        kLine + ",lun=c101000000000000", kLine + ",io_class=0200", kLine + ",io_class=0x",
        std::string{"id_ext=5,dgid"}, std::string{"sbft:/nonexistent"}, std::string{"nbd://h/1"}}) {
    EXPECT_FALSE(find_target(text)) << text;
  }
}

}  // namespace
}  // namespace weft::programs::srp
