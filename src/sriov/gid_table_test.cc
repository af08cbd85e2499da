#include "sriov/gid_table.h"

#include <gtest/gtest.h>

#include <optional>

namespace weft::sriov {
namespace {

constexpr std::uint64_t kPrefix = 0xFEC0'0000'0000'0001;

TEST(SriovGids, LeadToTheirFunctionWithThePortsOrTheDefaultPrefix) {
  GidTable table{kPrefix};
  EXPECT_TRUE(table.set(FunctionId{1}, Guid{11}).has_value());
  EXPECT_EQ(table.find(Gid{kPrefix, Guid{11}}), FunctionId{1});
  EXPECT_EQ(table.find(Gid{kDefaultGidPrefix, Guid{11}}), FunctionId{1});
  EXPECT_EQ(table.find(Gid{kPrefix + 1, Guid{11}}), std::nullopt);
  EXPECT_EQ(table.find(Gid{kPrefix, Guid{12}}), std::nullopt);
  EXPECT_EQ(table.gid_of(FunctionId{1}), (Gid{kPrefix, Guid{11}}));
}

TEST(SriovGids, AreNotSharedAndCanBeReplaced) {
  GidTable table{kPrefix};
  EXPECT_TRUE(table.set(FunctionId{1}, Guid{11}).has_value());
  EXPECT_EQ(table.set(FunctionId{2}, Guid{11}).error().code, ErrorCode::Exists);
  EXPECT_FALSE(table.set(FunctionId{2}, Guid{0}).has_value());
  EXPECT_TRUE(table.set(FunctionId{1}, Guid{13}).has_value());
  EXPECT_EQ(table.find(Gid{kPrefix, Guid{11}}), std::nullopt);
  EXPECT_TRUE(table.set(FunctionId{2}, Guid{11}).has_value());
  table.remove(FunctionId{2});
  EXPECT_EQ(table.gid_of(FunctionId{2}), std::nullopt);
  EXPECT_EQ(table.find(Gid{kPrefix, Guid{11}}), std::nullopt);
}

}  // namespace
}  // namespace weft::sriov
