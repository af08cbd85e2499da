#include "programs/srp/initiator_service.h"

#include <gtest/gtest.h>

#include "programs/srp/target_url.h"
#include "ulp/srp/port_name.h"

namespace weft::programs::srp {
namespace {

const InitiatorPort kPort{
    .device = "weft0", .number = "1", .gid = "fe80:0000:0000:0000:0257:4610:0002:0001"};

TEST(SrpInitiatorService, NamesUnitsAsAttachTakesThem) {
  const auto line = weft::srp::parse_add_target(
      "id_ext=5,ioc_guid=0257461000010000,dgid=fe800000000000000257461000010001,pkey=7fff,"
      "service_id=13f15b3");
  ASSERT_TRUE(line) << line.error().reason;
  const auto url = find_target(unit_name(*line, kPort, 300));
  ASSERT_TRUE(url) << url.error().reason;
  EXPECT_EQ(url->lun, 300);
  EXPECT_EQ(url->port_id, line->target_port_id());
  ASSERT_TRUE(url->native);
  EXPECT_EQ(url->native->gid, line->destination_gid);
  EXPECT_EQ(url->native->pkey, PKey{0x7FFF});
  EXPECT_EQ(url->native->service_id, 0x013F'15B3U);
  EXPECT_EQ(url->source_gid, (Gid{0xFE80'0000'0000'0000, Guid{0x0257'4610'0002'0001}}));
}

TEST(SrpInitiatorService, NamesBothEndsOfRevision10WithTheGuidFirst) {  // R-SRPI-3
  const std::string text =
      "id_ext=5,ioc_guid=0257461000010000,dgid=fe800000000000000257461000010001,pkey=7fff,"
      "service_id=13f15b3,initiator_ext=77";
  const auto line = weft::srp::parse_add_target(text);
  ASSERT_TRUE(line) << line.error().reason;
  EXPECT_EQ(initiator_name(*line, kPort), "0x00000000000000770257461000020001");
  const auto old = weft::srp::parse_add_target(text + ",io_class=ff00");
  ASSERT_TRUE(old) << old.error().reason;
  EXPECT_EQ(initiator_name(*old, kPort), "0x02574610000200010000000000000077");
  const auto url = find_target(unit_name(*old, kPort, 0));
  ASSERT_TRUE(url) << url.error().reason;
  EXPECT_EQ(url->port_id, old->target_port_id());
  EXPECT_EQ(weft::srp::to_string(url->port_id), "0x02574610000100000000000000000005");
}

TEST(SrpInitiatorService, NamesUnitsByAddressToo) {
  const auto line = weft::srp::parse_add_target("id_ext=5,ioc_guid=7,dest=127.77.0.1:5555");
  ASSERT_TRUE(line) << line.error().reason;
  const auto url = find_target(unit_name(*line, kPort, 3));
  ASSERT_TRUE(url) << url.error().reason;
  EXPECT_EQ(url->address, "127.77.0.1:5555");
  EXPECT_EQ(url->lun, 3);
  EXPECT_EQ(url->port_id, line->target_port_id());
  EXPECT_FALSE(url->native);
}

}  // namespace
}  // namespace weft::programs::srp
