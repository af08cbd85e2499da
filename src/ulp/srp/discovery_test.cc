#include "ulp/srp/discovery.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ulp/srp/device_agent.h"
#include "ulp/srp/port_name.h"
#include "wire/testing/srp_tables.h"

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

/// Octet for octet by the tables of IBTA vol 1 §16.3.3, as another decoder reads them.
TEST(SrpDiscovery, KeepsUnitControllerAndServicesToTheOctet) {  // T-SRPT-1
  DeviceAgent agent{
      {.ioc_guid = Guid{0x0002'C903'0000'0001},
       .vendor_id = 0x02C9,
       .device_id = 0x1011,
       .device_version = 0x0A0B,
       .id_string = "Weft",
       .send_queue_depth = 128,
       .send_message_size = 8260,
       .rdma_size = 1U << 20}
  };
  for (std::uint64_t id = 1; id <= 5; ++id) {
    EXPECT_TRUE(agent.add_service(DeviceAgent::service_name(id), 0x13F'0000 + id).has_value());
  }
  Discovery discovery;
  std::vector<wire::DevMgtMad> answers;
  while (const auto request = discovery.next_request()) {
    answers.push_back(agent.answer(*request));
    ASSERT_TRUE(discovery.handle_answer(answers.back()).has_value());
  }
  const auto& attributes = discovery.attributes();
  ASSERT_EQ(attributes.size(), 4U);
  for (std::size_t i = 0; i < attributes.size(); ++i) {
    EXPECT_EQ(attributes[i].data, answers[i].data);
  }
  EXPECT_EQ(attributes[0].attribute, 0x10);
  EXPECT_EQ(attributes[0].data[1], std::byte{1});   // change id
  EXPECT_EQ(attributes[0].data[2], std::byte{16});  // slots
  EXPECT_EQ(attributes[0].data[4], std::byte{0x10});
  EXPECT_EQ(attributes[1].attribute, 0x11);
  EXPECT_EQ(attributes[1].modifier, 1U);
  auto profile = wire::srp_tables::decode({"profile", 128, wire::srp_tables::kProfile},
                                          ByteSpan{attributes[1].data}.first(128));
  EXPECT_TRUE(profile.faults.empty());
  EXPECT_EQ(profile.numbers["IOCGUID"], 0x0002'C903'0000'0001U);
  EXPECT_EQ(profile.numbers["VendorID"], 0x02C9U);
  EXPECT_EQ(profile.numbers["SendMessageSize"], 8260U);
  EXPECT_EQ(profile.numbers["ServiceEntries"], 5U);
  EXPECT_EQ(attributes[2].modifier, 1U << 16 | 3U << 8);
  EXPECT_EQ(attributes[3].modifier, 1U << 16 | 4U << 8 | 4U);
  auto entry = wire::srp_tables::decode({"entry", 48, wire::srp_tables::kServiceEntry},
                                        ByteSpan{attributes[3].data}.first(48));
  EXPECT_EQ(entry.numbers["ServiceID"], 0x13F'0005U);
  EXPECT_EQ(text_of(entry.octets["ServiceName"]), "SRP.T10:0000000000000005");

  ASSERT_TRUE(discovery.unit().has_value());
  EXPECT_EQ(discovery.unit()->max_controllers, 16);
  ASSERT_EQ(discovery.controllers().size(), 1U);
  EXPECT_EQ(discovery.controllers()[0].slot, 1);
  EXPECT_EQ(discovery.controllers()[0].profile.device_version, 0x0A0B);
  EXPECT_EQ(discovery.controllers()[0].services.size(), 5U);
}

TEST(SrpDiscovery, AControllerOfSomethingElseIsShownAndHasNoTargets) {
  DeviceAgent agent{{.ioc_guid = Guid{1}}};
  EXPECT_TRUE(agent.add_service(DeviceAgent::service_name(1), 1).has_value());
  Discovery discovery;
  while (const auto request = discovery.next_request()) {
    wire::DevMgtMad answer = agent.answer(*request);
    if (request->header.attribute_id == wire::kAttributeIoControllerProfile) {
      answer.data[31] = std::byte{0};  // its subclass
    }
    ASSERT_TRUE(discovery.handle_answer(answer).has_value());
  }
  ASSERT_EQ(discovery.controllers().size(), 1U);
  EXPECT_TRUE(discovery.controllers()[0].services.empty());
  EXPECT_TRUE(discovery.targets().empty());
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
