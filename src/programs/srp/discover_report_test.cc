#include "programs/srp/discover_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "programs/srp/umad_client.h"
#include "ulp/srp/device_agent.h"
#include "wire/address_text.h"
#include "wire/mad/sa_table_records.h"

namespace weft::programs::srp {
namespace {

using Lines = std::vector<std::string>;

/// What is read of a port with a target.
[[nodiscard]] FoundPort found_port(const std::string& id_string) {
  weft::srp::DeviceAgent agent{
      {.ioc_guid = Guid{0x0002'C903'0000'0001},
       .vendor_id = 0x02C9,
       .device_id = 4119,
       .device_version = 1,
       .id_string = id_string,
       .send_queue_depth = 128,
       .send_message_size = 8260,
       .rdma_size = 1U << 20}
  };
  EXPECT_TRUE(agent.add_service(weft::srp::DeviceAgent::service_name(5), 0x13F'15B3).has_value());
  FoundPort found{
      .port = {.lid = Lid{2}, .gid = Gid{kDefaultGidPrefix, Guid{0xABCD}}, .node = "h1"},
      .pkey = kDefaultPKey
  };
  while (const auto request = found.discovery.next_request()) {
    EXPECT_TRUE(found.discovery.handle_answer(agent.answer(*request)).has_value());
  }
  return found;
}

constexpr const char* kLine =
    "id_ext=0000000000000005,ioc_guid=0002c90300000001,"
    "dgid=fe80000000000000000000000000abcd,pkey=ffff,service_id=00000000013f15b3";

TEST(SrpDiscoverReport, HasUnitsControllersAndServices) {
  std::vector<FoundPort> ports{found_port("Weft\x1b[31m")};
  ports.push_back({
      .port = {.lid = Lid{3}, .gid = Gid{kDefaultGidPrefix, Guid{0x1234}}, .node = "h2"},
      .failure = "LID 3 does not answer"
  });
  EXPECT_EQ(discovery_text(ports),
            std::string{"port fe80::abcd, LID 2, of h1\n"
                        "  I/O unit: change 1, 1 controllers in 16 slots\n"
                        "  controller 0002c90300000001 in slot 1: Weft?[31m\n"
                        "    vendor 0x0002c9, device 4119, version 1; class 0x0100, subclass "
                        "0x609e, protocol 0x0108 version 1\n"
                        "    messages of 8260 octets, 128 at a time; transfers of 1048576 octets, "
                        "4 READs at a time\n"
                        "    service SRP.T10:0000000000000005, ID 00000000013f15b3\n"
                        "    "} +
                kLine +
                "\nport fe80::1234, LID 3, of h2\n"
                "  not read: LID 3 does not answer\n");
  EXPECT_EQ(connect_strings(ports), Lines{kLine});
  EXPECT_EQ(discovery_text({}), "no port of this subnet says that it has I/O controllers\n");
}

TEST(SrpDiscoverReport, JsonHasTheOctets) {
  const std::vector<FoundPort> ports{found_port("Weft")};
  const auto json = nlohmann::json::parse(discovery_json(ports));
  ASSERT_EQ(json.size(), 1U);
  EXPECT_EQ(json[0]["targets"].get<Lines>(), Lines{kLine});
  EXPECT_EQ(json[0]["controllers"][0]["services"][0]["service_id"], "00000000013f15b3");
  ASSERT_EQ(json[0]["attributes"].size(), 3U);
  const auto& read = ports[0].discovery.attributes();
  for (std::size_t i = 0; i < read.size(); ++i) {
    EXPECT_EQ(json[0]["attributes"][i]["octets"], wire::hex_text(read[i].data));
    EXPECT_EQ(json[0]["attributes"][i]["attribute"], read[i].attribute);
  }
  EXPECT_EQ(nlohmann::json::parse(discovery_json({})), nlohmann::json::array());
}

TEST(SrpDiscoverReport, ChangesAreWhatWentAndWhatCame) {
  EXPECT_EQ(changes_of({"a", "b"}, {"b", "c"}), (Lines{"- a", "+ c"}));
  EXPECT_TRUE(changes_of({"a"}, {"a"}).empty());
}

/// An answer of SA with `count` records at a distance of so many units of 8 octets.
[[nodiscard]] std::vector<std::byte> answer(std::uint16_t distance, std::size_t count) {
  const auto header = wire::pack(wire::SaHeader{.attribute_offset = distance});
  std::vector<std::byte> octets{header.begin(), header.end()};
  for (std::size_t i = 0; i < count; ++i) {
    auto record = wire::pack(wire::PortInfoRecord{.lid = Lid{static_cast<std::uint32_t>(i + 1)}});
    octets.insert(octets.end(), record.begin(), record.end());
    octets.resize(wire::kSizeOf<wire::SaHeader> + (i + 1) * distance * 8);
  }
  return octets;
}

TEST(SrpUmadClient, ReadsRecordsAtTheirDistance) {
  const auto records = records_of<wire::PortInfoRecord>(answer(9, 3));  // 68 octets in 72
  ASSERT_TRUE(records.has_value());
  ASSERT_EQ(records->size(), 3U);
  EXPECT_EQ((*records)[2].lid, Lid{3});
  EXPECT_TRUE(records_of<wire::PortInfoRecord>(answer(0, 0))->empty());
  EXPECT_FALSE(records_of<wire::PortInfoRecord>(answer(8, 0)).has_value()) << "too close";
  EXPECT_FALSE(records_of<wire::PortInfoRecord>(ByteSpan{answer(9, 0)}.first(55)).has_value());
  auto cut = answer(9, 2);
  cut.resize(cut.size() - 8);
  EXPECT_EQ(records_of<wire::PortInfoRecord>(cut)->size(), 1U);
}

}  // namespace
}  // namespace weft::programs::srp
