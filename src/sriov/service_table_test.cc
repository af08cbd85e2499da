#include "sriov/service_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <optional>

namespace weft::sriov {
namespace {

constexpr FunctionId kA{1};
constexpr FunctionId kB{2};
constexpr std::uint64_t kUdpPort7 = 0x0000'0000'0111'0007;

wire::RdmaCmAddress address(std::uint8_t last) {
  wire::RdmaCmAddress address{};
  address[15] = std::byte{last};
  return address;
}

wire::SidrReq request_to(std::uint8_t last, std::uint64_t service_id = kUdpPort7) {
  wire::RdmaCmHeader header;
  header.destination_address = address(last);
  header.source_address = address(99);
  wire::SidrReq request{.pkey = PKey{0x8001}, .service_id = service_id};
  std::ranges::copy(wire::pack(header), request.private_data.begin());
  return request;
}

TEST(SriovServices, RdmaCmsHeaderSaysWhichAddress) {
  ServiceTable table{4};
  EXPECT_TRUE(table.add_address(kA, address(1)).has_value());
  EXPECT_TRUE(table.add_address(kB, address(2)).has_value());
  EXPECT_EQ(table.find_address(request_to(1)), kA);
  EXPECT_EQ(table.find_address(request_to(2)), kB);
  EXPECT_EQ(table.find_address(request_to(3)), std::nullopt);
  EXPECT_EQ(table.find_address(request_to(1, 0x5000)), std::nullopt);  // not RDMA-CM's data
}

TEST(SriovServices, AListenerHasItsServiceInItsPartition) {
  ServiceTable table{4};
  EXPECT_TRUE(table.add_listener(kA, 5, PKey{0x8001}).has_value());
  EXPECT_TRUE(table.add_listener(kB, 5, PKey{0x8002}).has_value());
  wire::SidrReq request{.pkey = PKey{0x0002}, .service_id = 5};
  EXPECT_EQ(table.find_listener(request), kB);
  request.service_id = 6;
  EXPECT_EQ(table.find_listener(request), std::nullopt);
  table.remove_listener(kA, 5, PKey{0x8002});  // not its own
  request.service_id = 5;
  EXPECT_EQ(table.find_listener(request), kB);
  table.remove_listener(kB, 5, PKey{0x8002});
  EXPECT_EQ(table.find_listener(request), std::nullopt);
}

TEST(SriovServices, NobodyTakesAnothersOrTooMuch) {
  ServiceTable table{2};
  EXPECT_TRUE(table.add_address(kA, address(1)).has_value());
  EXPECT_TRUE(table.add_address(kA, address(1)).has_value());  // again
  EXPECT_EQ(table.add_address(kB, address(1)).error().code, ErrorCode::AddressInUse);
  EXPECT_TRUE(table.add_address(kA, address(2)).has_value());
  EXPECT_EQ(table.add_address(kA, address(3)).error().code, ErrorCode::OutOfMemory);
  table.remove(kA);
  EXPECT_TRUE(table.add_address(kB, address(1)).has_value());
}

}  // namespace
}  // namespace weft::sriov
