// Our octets, judged by the decoder of testing/srp_tables.h, which is made of the tables of field
// offsets alone.

#include "wire/testing/srp_tables.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "wire/srp/device_management.h"
#include "wire/srp/information_unit.h"

namespace weft::wire {
namespace {

using srp_tables::Decoded;
using srp_tables::Table;

/// Each named field of a structure must be what the decoder has under that name.
struct Compare {
  const Decoded& decoded;
  std::size_t fields{};

  void number(std::string_view name, unsigned bits, std::uint64_t value) {
    ++fields;
    value &= ~std::uint64_t{0} >> (64 - bits);  // a delta has a sign
    const auto found = decoded.numbers.find(std::string{name});
    ASSERT_NE(found, decoded.numbers.end()) << name;
    EXPECT_EQ(found->second, value) << decoded.name << ": " << name;
  }
  void octets(std::string_view name, ByteSpan value) {
    ++fields;
    const auto found = decoded.octets.find(std::string{name});
    ASSERT_NE(found, decoded.octets.end()) << name;
    EXPECT_TRUE(std::ranges::equal(found->second, value)) << decoded.name << ": " << name;
  }
};

template <WireType T>
void expect_as_in(const Table& table) {
  Random random{7};
  for (int i = 0; i < 100; ++i) {
    const T value = arbitrary<T>(random);
    const auto octets = pack(value);
    EXPECT_EQ(octets.size(), table.octets) << table.name;
    const Decoded decoded = srp_tables::decode(table, octets);
    EXPECT_TRUE(decoded.faults.empty()) << decoded.faults.front();
    Compare compare{decoded};
    visit(value, compare);
    EXPECT_EQ(compare.fields, decoded.numbers.size() + decoded.octets.size()) << table.name;
  }
}

template <WireType T>
void expect_as_in_table_of(T value) {
  const Table* const table = srp_tables::table_of(static_cast<std::uint8_t>(value.opcode));
  ASSERT_NE(table, nullptr);
  EXPECT_EQ(table->name, T::kName);
  expect_as_in<T>(*table);
}

TEST(SrpTables, EveryUnitLiesAsTheTablesSay) {
  expect_as_in_table_of(SrpLoginReq{});
  expect_as_in_table_of(SrpLoginRsp{});
  expect_as_in_table_of(SrpLoginRej{});
  expect_as_in_table_of(SrpILogout{});
  expect_as_in_table_of(SrpTLogout{});
  expect_as_in_table_of(SrpTskMgmt{});
  expect_as_in_table_of(SrpCmd{});
  expect_as_in_table_of(SrpRsp{});
  expect_as_in_table_of(SrpCredReq{});
  expect_as_in_table_of(SrpCredRsp{});
  expect_as_in_table_of(SrpAerReq{});
  expect_as_in_table_of(SrpAerRsp{});
  expect_as_in<SrpLoginReqRdmaCm>({"login of RDMA-CM", 56, srp_tables::kLoginReqRdmaCm});
  expect_as_in<SrpDirectDescriptor>({"direct", 16, srp_tables::kDirect});
  expect_as_in<SrpIndirectDescriptor>({"indirect", 20, srp_tables::kIndirect});
}

TEST(SrpTables, DeviceManagementLiesAsTheTablesSay) {
  expect_as_in<IoControllerProfile>({"IOControllerProfile", 128, srp_tables::kProfile});
  expect_as_in<IocServiceEntry>({"service entry", 48, srp_tables::kServiceEntry});

  DevMgtMad mad;
  mad.data[0] = std::byte{0xA5};
  EXPECT_EQ(pack(mad)[64], std::byte{0xA5});
  ServiceEntries entries;
  entries.entries[2].service_id = 0x0102'0304'0506'0708;
  EXPECT_EQ(pack(entries)[2 * 48 + 40], std::byte{1});
  IoUnitInfo unit{.change_id = 0x0102, .max_controllers = 3, .diag_and_option_rom = 4};
  unit.controller_list = {IocSlot::Present, IocSlot::DoesNotExist, IocSlot::Empty,
                          IocSlot::Present};
  const auto octets = pack(unit);
  EXPECT_EQ(octets[1], std::byte{2});
  EXPECT_EQ(octets[2], std::byte{3});
  EXPECT_EQ(octets[3], std::byte{4});
  EXPECT_EQ(octets[4], std::byte{0x1F});
  EXPECT_EQ(octets[5], std::byte{0x01});
  EXPECT_EQ(octets.size(), 4U + 128U);
}

TEST(SrpTables, FindWhatIsWrong) {
  auto octets = pack(SrpTskMgmt{});
  octets[2] = std::byte{1};
  EXPECT_FALSE(srp_tables::decode_unit(octets).faults.empty());
  EXPECT_FALSE(srp_tables::decode_unit(ByteSpan{octets}.first(47)).faults.empty());
  const std::vector<std::byte> longer(49, std::byte{1});
  EXPECT_FALSE(srp_tables::decode_unit(longer).faults.empty());
  EXPECT_FALSE(srp_tables::decode_unit({}).faults.empty());
}

}  // namespace
}  // namespace weft::wire
