#include "ulp/srp/discovery.h"

#include <gtest/gtest.h>

#include <string>

#include "ulp/srp/device_agent.h"
#include "ulp/srp/port_name.h"

namespace weft::srp {
namespace {

TEST(SrpDiscovery, ReadsEveryServiceOfAPort) {  // part of T-SRPT-1
  DeviceAgent agent{
      {.ioc_guid = Guid{0x0002'C903'0000'0001},
       .id_string = "Weft",
       .send_message_size = 8260,
       .rdma_size = 1U << 20}
  };
  for (std::uint64_t id = 1; id <= 6; ++id) {
    EXPECT_TRUE(agent.add_service(DeviceAgent::service_name(id), 100 + id).has_value());
  }
  EXPECT_TRUE(agent.add_service("something else", 1).has_value());
  Discovery discovery;
  int asked = 0;
  while (const auto request = discovery.next_request()) {
    ASSERT_TRUE(discovery.handle_answer(agent.answer(*request)).has_value());
    ++asked;
  }
  EXPECT_EQ(asked, 4);  // unit, profile, two times four entries
  ASSERT_EQ(discovery.targets().size(), 6U);
  const FoundTarget& last = discovery.targets().back();
  EXPECT_EQ(last.id_extension, 6U);
  EXPECT_EQ(last.service_id, 106U);
  EXPECT_EQ(last.max_request_iu, 8260U);
  EXPECT_EQ(last.ioc_name, "Weft");
  EXPECT_EQ(connect_string(last, Gid{kDefaultGidPrefix, Guid{0xABCD}}, kDefaultPKey),
            "id_ext=0000000000000006,ioc_guid=0002c90300000001,"
            "dgid=fe80000000000000000000000000abcd,pkey=ffff,service_id=000000000000006a");
}

TEST(SrpDiscovery, Revision10HasItsClassAndSwapsTheHalves) {  // part of R-SRPI-3
  FoundTarget target{.id_extension = 1, .ioc_guid = Guid{2}};
  EXPECT_EQ(target_port_id(target), *parse_port_id("00000000000000010000000000000002"));
  target.io_class = wire::kSrpRev10IoClass;
  EXPECT_EQ(target_port_id(target), *parse_port_id("00000000000000020000000000000001"));
  EXPECT_TRUE(connect_string(target, Gid{}, kDefaultPKey).ends_with(",io_class=ff00"));
}

TEST(SrpDiscovery, RefusesWhatAnswersNothing) {
  Discovery discovery;
  wire::DevMgtMad answer = *discovery.next_request();
  EXPECT_FALSE(discovery.handle_answer(answer).has_value());  // still a Get
  answer.header.method = wire::MadMethod::GetResp;
  answer.header.transaction_id ^= 1;
  EXPECT_FALSE(discovery.handle_answer(answer).has_value());
  answer.header.transaction_id ^= 1;
  answer.header.status = 0x000C;
  EXPECT_EQ(discovery.handle_answer(answer).error().code, ErrorCode::NoSuchDevice);
  EXPECT_FALSE(discovery.next_request().has_value());
}

}  // namespace
}  // namespace weft::srp
