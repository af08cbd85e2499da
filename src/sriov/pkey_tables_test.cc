#include "sriov/pkey_tables.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace weft::sriov {
namespace {

constexpr FunctionId kVf{3};

PKeyTables tables() {
  PKeyTables tables;
  tables.set_physical({PKey{0xFFFF}, PKey{0x0001}, PKey{0x8001}, PKey{0x0002}, PKey{0}});
  EXPECT_TRUE(tables.assign(kVf, {3, 1, 2, 4}).has_value());
  return tables;
}

TEST(SriovPKeys, IndexesOfAFunctionNameEntriesOfThePort) {
  const PKeyTables of = tables();
  EXPECT_EQ(of.to_physical(kVf, 0), 3);
  EXPECT_EQ(of.to_physical(kVf, 2), 2);
  EXPECT_EQ(of.to_physical(kVf, 3), std::nullopt);  // invalid P_Key
  EXPECT_EQ(of.to_physical(kVf, 4), std::nullopt);  // beyond the table
  EXPECT_EQ(of.to_physical(FunctionId{4}, 0), std::nullopt);
  EXPECT_EQ(of.to_physical(kPhysicalFunction, 1), 1);
  EXPECT_EQ(of.table_of(kVf), (std::vector{PKey{0x0002}, PKey{0x0001}, PKey{0x8001}, PKey{0}}));
}

TEST(SriovPKeys, AFullMembersEntryIsFoundBeforeALimitedOne) {
  const PKeyTables of = tables();
  EXPECT_EQ(of.to_virtual(kVf, PKey{0x8001}), 2);
  EXPECT_EQ(of.to_virtual(kVf, PKey{0x0001}), 2);
  EXPECT_EQ(of.to_virtual(kVf, PKey{0x8002}), 0);
  EXPECT_EQ(of.to_virtual(kVf, PKey{0x0002}), std::nullopt);  // two limited members
  EXPECT_EQ(of.to_virtual(kVf, PKey{0xFFFF}), std::nullopt);  // not assigned
  EXPECT_EQ(of.to_virtual(kPhysicalFunction, PKey{0xFFFF}), 0);
}

TEST(SriovPKeys, FollowThePortsTable) {
  PKeyTables of = tables();
  EXPECT_TRUE(of.has_partition(kVf, PKey{0x8001}));
  EXPECT_FALSE(of.has_partition(kVf, PKey{0xFFFF}));
  of.set_physical({PKey{0x8009}, PKey{0x8008}, PKey{0}, PKey{0x8007}});
  EXPECT_EQ(of.to_virtual(kVf, PKey{0x8007}), 0);
  EXPECT_FALSE(of.has_partition(kVf, PKey{0x8001}));
  EXPECT_EQ(of.table_of(kVf).back(), PKey{});  // the port's table became shorter
  EXPECT_FALSE(of.assign(kVf, {4}).has_value());
  of.remove(kVf);
  EXPECT_EQ(of.to_virtual(kVf, PKey{0x8007}), std::nullopt);
}

}  // namespace
}  // namespace weft::sriov
