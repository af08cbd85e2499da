#include "ulp/srp/device_agent.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "wire/mad/class_port_info.h"
#include "wire/testing/srp_tables.h"

namespace weft::srp {
namespace {

class SrpDeviceAgent : public ::testing::Test {
 protected:
  SrpDeviceAgent() {
    EXPECT_TRUE(agent.add_service(DeviceAgent::service_name(0x1234), 0x1234).has_value());
  }
  [[nodiscard]] std::vector<std::byte> get(std::uint16_t attribute, std::uint32_t modifier) {
    wire::DevMgtMad request;
    request.header.method = wire::MadMethod::Get;
    request.header.attribute_id = attribute;
    request.header.attribute_modifier = modifier;
    request.header.transaction_id = 99;
    const auto response = agent.answer(request);
    EXPECT_EQ(response.header.method, wire::MadMethod::GetResp);
    EXPECT_EQ(response.header.transaction_id, 99U);
    status = response.header.status;
    const auto octets = wire::pack(response);
    return {octets.begin() + 64, octets.end()};
  }

  DeviceAgent agent{
      {.ioc_guid = Guid{0x0002'C903'0000'0001},
       .vendor_id = 0x02C9,
       .device_id = 0x1011,
       .id_string = "Weft SRP target",
       .send_queue_depth = 128,
       .send_message_size = 8260,
       .rdma_size = 1ULL << 32}
  };
  std::uint16_t status{};
};

TEST_F(SrpDeviceAgent, TellsUnitControllerAndServices) {
  auto data = get(0x01, 0);
  EXPECT_EQ(status, 0);
  const auto info = wire::parse<wire::ClassPortInfo>(data);
  EXPECT_EQ(info->base_version, 1);
  EXPECT_EQ(info->class_version, 1);
  EXPECT_EQ(info->resp_time_value, 20);

  data = get(0x10, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(data[1], std::byte{1});
  EXPECT_EQ(data[2], std::byte{16});
  EXPECT_EQ(data[4], std::byte{0x10});
  EXPECT_TRUE(
      std::all_of(data.begin() + 5, data.end(), [](std::byte b) { return b == std::byte{}; }));

  data = get(0x11, 1);
  EXPECT_EQ(status, 0);
  auto decoded = wire::srp_tables::decode({"profile", 128, wire::srp_tables::kProfile}, data);
  EXPECT_TRUE(decoded.faults.empty());
  EXPECT_EQ(decoded.numbers["IOCGUID"], 0x0002'C903'0000'0001U);
  EXPECT_EQ(decoded.numbers["IOClass"], 0x0100U);
  EXPECT_EQ(decoded.numbers["IOSubclass"], 0x609EU);
  EXPECT_EQ(decoded.numbers["Protocol"], 0x0108U);
  EXPECT_EQ(decoded.numbers["ProtocolVersion"], 1U);
  EXPECT_EQ(decoded.numbers["SendMessageDepth"], 128U);
  EXPECT_EQ(decoded.numbers["RDMAReadDepth"], 4U);
  EXPECT_EQ(decoded.numbers["SendMessageSize"], 8260U);
  EXPECT_EQ(decoded.numbers["RDMATransferSize"], 1U << 24);
  EXPECT_EQ(decoded.numbers["ControllerOperations"], 0x2BU);
  EXPECT_EQ(decoded.numbers["ServiceEntries"], 1U);

  data = get(0x12, 1U << 16);
  EXPECT_EQ(status, 0);
  decoded = wire::srp_tables::decode({"entry", 48, wire::srp_tables::kServiceEntry}, data);
  EXPECT_EQ(decoded.numbers["ServiceID"], 0x1234U);
  const std::string expected = "SRP.T10:0000000000001234";
  const auto& name = decoded.octets["ServiceName"];
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), name.begin(),
                         [](char c, std::byte b) { return static_cast<std::byte>(c) == b; }));
  EXPECT_EQ(name[expected.size()], std::byte{});
}

TEST_F(SrpDeviceAgent, StatusSaysWhatIsNotThere) {  // R-SRPT-5
  struct Case {
    std::uint16_t attribute;
    std::uint32_t modifier;
    std::uint16_t status;
  };
  for (const Case& one : {
           Case{0x11, 0,                  0x001C},
           Case{0x11, 17,                 0x001C},
           Case{0x11, 2,                  0x0100},
           Case{0x11, 16,                 0x0100},
           Case{0x12, 0,                  0x001C},
           Case{0x12, 17U << 16,          0x001C},
           Case{0x12, 2U << 16,           0x0100},
           Case{0x12, 1U << 16 | 2U << 8, 0x0200},
           Case{0x12, 1U << 16 | 1,       0x0200},
           Case{0x20, 0,                  0x000C}
  }) {
    std::ignore = get(one.attribute, one.modifier);
    EXPECT_EQ(status, one.status) << one.attribute << " " << one.modifier;
  }
  wire::DevMgtMad request;
  request.header.method = wire::MadMethod::Set;
  EXPECT_EQ(agent.answer(request).header.status, 0x000C);
  request.header.method = wire::MadMethod::GetTable;
  EXPECT_EQ(agent.answer(request).header.status, 0x0008);
}

TEST_F(SrpDeviceAgent, FourServicesFitInOneAnswer) {
  EXPECT_FALSE(agent.add_service(DeviceAgent::service_name(0x1234), 1).has_value());
  for (std::uint64_t id = 1; id <= 4; ++id) {
    EXPECT_TRUE(agent.add_service(DeviceAgent::service_name(id), id).has_value());
  }
  const auto data = get(0x12, wire::ServiceEntriesRange{.slot = 1, .high = 4, .low = 1}.modifier());
  EXPECT_EQ(status, 0);
  EXPECT_EQ(data[3 * 48 + 47], std::byte{4});
  std::ignore = get(0x12, wire::ServiceEntriesRange{.slot = 1, .high = 4}.modifier());
  EXPECT_EQ(status, 0x0200);
}

TEST(SrpSetIoc, WritesFourBitsOfAOneBasedSlot) {  // R-SRPT-5
  wire::IoUnitInfo unit;
  set_ioc(unit, 1, 0xF1);
  set_ioc(unit, 4, 0x0F);
  const auto octets = wire::pack(unit);
  EXPECT_EQ(octets[4], std::byte{0x10});
  EXPECT_EQ(octets[5], std::byte{0x0F});
}

}  // namespace
}  // namespace weft::srp
