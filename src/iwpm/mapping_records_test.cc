#include "iwpm/mapping_records.h"

#include <gtest/gtest.h>

namespace weft::iwpm {
namespace {

const SocketAddress kLocal{IpAddress::v4(0x0A00'0001), 80};
const SocketAddress kMapped{IpAddress::v4(0x0A00'0001), 40'000};
const SocketAddress kPeer{IpAddress::v4(0x0A00'0002), 90};
const SocketAddress kV6{IpAddress::v6(0xFD00'0000'0000'0000, 1), 80};

// T-IWPM-6
TEST(IwpmRecords, CompareOnlyEqualAddressesAsZero) {
  EXPECT_EQ(compare_sockaddr(kLocal, SocketAddress(IpAddress::v4(0x0A00'0001), 80)), 0);
  EXPECT_EQ(compare_sockaddr(kLocal, kLocal.with_port(81)), 1);
  EXPECT_EQ(compare_sockaddr(kLocal, SocketAddress(IpAddress::v4(0x0A00'0003), 80)), 1);
  EXPECT_EQ(compare_sockaddr(kLocal, kV6), 1);
  EXPECT_EQ(compare_sockaddr(kV6, kV6), 0);
  EXPECT_EQ(compare_sockaddr(kV6, kV6.with_port(81)), 1);
  const SocketAddress mapped_v4{IpAddress::v6(0, 0xFFFF'0A00'0001), 80};
  EXPECT_EQ(compare_sockaddr(kLocal, mapped_v4), 1);
  SocketAddress unknown;
  unknown.family = 7;
  EXPECT_EQ(compare_sockaddr(unknown, unknown), 1);
}

TEST(IwpmRecords, PrintAddressAndPort) {
  EXPECT_EQ(print_sockaddr(kLocal, "add_mapping: local"), "add_mapping: local 10.0.0.1:80");
  EXPECT_EQ(print_sockaddr(kV6, "x"), "x [fd00::1]:80");
}

TEST(IwpmRecords, AreThereOnceAUserAndKnowTheirClient) {
  MappingRecords records{4};
  EXPECT_EQ(records.mapinfo_available(), 0);
  EXPECT_TRUE(records.create_mapinfo(2, kLocal, kMapped, 1).has_value());
  EXPECT_TRUE(records.create_mapinfo(2, kLocal, kMapped, 1).has_value());
  EXPECT_TRUE(records.create_mapinfo(3, kV6, kV6, 0).has_value());
  EXPECT_FALSE(records.create_mapinfo(2, SocketAddress{}, kMapped, 0).has_value());
  EXPECT_EQ(records.mapinfo_available(), 1);
  ASSERT_EQ(records.mapinfo_of(2).size(), 2U);
  EXPECT_EQ(records.mapinfo_of(2)[0],
            (wire::iwpm::Mapinfo{.local = kLocal, .mapped = kMapped, .flags = 1}));
  EXPECT_FALSE(records.remove_mapinfo(kLocal, kLocal).has_value());
  EXPECT_TRUE(records.remove_mapinfo(kLocal, kMapped).has_value());
  EXPECT_TRUE(records.remove_mapinfo(kLocal, kMapped).has_value());
  EXPECT_EQ(records.remove_mapinfo(kLocal, kMapped).error().code, ErrorCode::InvalidArgument);
  EXPECT_EQ(records.mappings(), 1U);
  records.clear();
  EXPECT_EQ(records.mapinfo_available(), 0);
}

TEST(IwpmRecords, ARemoteInfoIsTakenOnce) {
  MappingRecords records{2};
  const RemoteInfo info{
      .client = 2, .mapped_local = kMapped, .mapped_remote = kPeer.with_port(9), .remote = kPeer};
  EXPECT_TRUE(records.add_remote_info(info));
  EXPECT_FALSE(records.get_remote_info(kMapped, kPeer).has_value());
  EXPECT_FALSE(records.get_remote_info(info.mapped_remote, kMapped).has_value());
  EXPECT_EQ(records.get_remote_info(kMapped, info.mapped_remote).value_or(SocketAddress{}), kPeer);
  EXPECT_EQ(records.get_remote_info(kMapped, info.mapped_remote).error().code,
            ErrorCode::InvalidArgument);
  EXPECT_TRUE(records.add_remote_info(info));
  EXPECT_TRUE(records.add_remote_info(info));
  EXPECT_FALSE(records.add_remote_info(info));  // nobody asks for them
}

}  // namespace
}  // namespace weft::iwpm
