// Regions of other processes in a table of keys (ibv_import_mr(3)).

#include <gtest/gtest.h>

#include <array>

#include "hca/memory_region.h"

namespace weft::hca {
namespace {

constexpr AccessFlags kAll = AccessFlags{Access::LocalWrite} | Access::RemoteWrite |
                             Access::RemoteRead | Access::RemoteAtomic;

class ImportedRegion : public ::testing::Test {
 protected:
  MemoryTable table_{8, 1, LockPolicy::None};
  ProtectionDomain shared_;
  ProtectionDomain own_;
  std::array<std::byte, 64> memory_{};
};

TEST_F(ImportedRegion, IsFoundUnderItsOwnKeyInItsPd) {
  const RKey key{0x345};
  ASSERT_TRUE(table_.import(shared_, key, 0x1000, memory_.size(), memory_.data(), kAll));
  const auto found = table_.find(shared_, key, 0x1008, 8, Access::RemoteWrite);
  EXPECT_EQ(found.fault, KeyFault::None);
  EXPECT_EQ(found.memory.data(), memory_.data() + 8);
  EXPECT_EQ(table_.find(shared_, LKey{0x345}, 0x1000, 64, Access::LocalWrite).fault,
            KeyFault::None);
  EXPECT_EQ(table_.find(own_, key, 0x1008, 8, Access::RemoteWrite).fault, KeyFault::NoSuchKey);
  EXPECT_EQ(table_.find(shared_, RKey{0x346}, 0x1008, 8, {}).fault, KeyFault::NoSuchKey);
  EXPECT_EQ(table_.find(shared_, key, 0x1008, 64, {}).fault, KeyFault::OutOfRange);
}

/// Two processes may have assigned the same key to different regions.
TEST_F(ImportedRegion, StandsBesideARegionOfThisProcessWithTheSameKey) {
  std::array<std::byte, 64> mine{};
  MemoryRegion& region = **table_.add(own_, 0x2000, mine, kAll);
  ASSERT_TRUE(table_.import(shared_, region.rkey, 0x1000, memory_.size(), memory_.data(), kAll));
  EXPECT_EQ(table_.find(own_, region.rkey, 0x2000, 8, {}).memory.data(), mine.data());
  EXPECT_EQ(table_.find(shared_, region.rkey, 0x1000, 8, {}).memory.data(), memory_.data());
  const ProtectionDomain third;
  EXPECT_EQ(table_.find(third, region.rkey, 0x1000, 8, {}).fault, KeyFault::OtherPd);
}

TEST_F(ImportedRegion, GivesNoAccessToMemoryThatIsNotMappedHere) {
  const RKey key{0x345};
  ASSERT_TRUE(table_.import(shared_, key, 0x1000, 64, nullptr, kAll));
  EXPECT_EQ(table_.find(shared_, key, 0x1000, 8, Access::RemoteRead).fault, KeyFault::OtherProcess);
  EXPECT_EQ(table_.find(shared_, LKey{key.value()}, 0x1000, 8, {}).fault, KeyFault::OtherProcess);
  EXPECT_EQ(table_.find(shared_, key, 0x2000, 8, {}).fault, KeyFault::OutOfRange);
}

TEST_F(ImportedRegion, IsGoneOnceForgotten) {
  const RKey key{0x345};
  MemoryRegion& region = **table_.import(shared_, key, 0x1000, 64, memory_.data(), kAll);
  EXPECT_NE(table_.remove_import(region), nullptr);
  EXPECT_EQ(table_.find(shared_, key, 0x1000, 8, {}).fault, KeyFault::NoSuchKey);
}

TEST_F(ImportedRegion, IsRefusedBeyondTheLimitAndTheAddressSpace) {
  EXPECT_FALSE(table_.import(shared_, RKey{0x345}, ~std::uint64_t{0} - 8, 64, nullptr, kAll));
  for (std::uint32_t i = 0; i < MemoryTable::kMaxImports; ++i) {
    ASSERT_TRUE(table_.import(shared_, RKey{i}, 0, 8, memory_.data(), kAll));
  }
  EXPECT_EQ(table_.import(shared_, RKey{9}, 0, 8, memory_.data(), kAll).error().code,
            ErrorCode::OutOfMemory);
}

}  // namespace
}  // namespace weft::hca
