#include <gtest/gtest.h>

#include <array>
#include <bit>

#include "hca/memory_region.h"

namespace weft::hca {
namespace {

using Range = MemoryTable::Range;

constexpr std::uint64_t kIova = 0x1000;
constexpr std::size_t kBytes = 100;

/// Lookups by a FLUSH in each kind of memory (IBTA vol 1 annex A19).
class MemoryFlush : public ::testing::Test {
 protected:
  [[nodiscard]] KeyFault fault(const MemoryRegion& region, std::optional<Range> range) const {
    return table_.find_to_flush(pd_, region.rkey, range, Access::FlushGlobal).fault;
  }

  ProtectionDomain pd_;
  ProtectionDomain other_;
  MemoryTable table_{8, 1, LockPolicy::None};
  std::array<std::byte, kBytes> memory_{};
};

TEST_F(MemoryFlush, LooksAtRangesOfNothingToo) {
  const MemoryRegion& region = **table_.add(pd_, kIova, memory_, Access::FlushGlobal);
  EXPECT_EQ(fault(region, Range{kIova, kBytes}), KeyFault::None);
  EXPECT_EQ(fault(region, Range{kIova + kBytes, 0}), KeyFault::None);
  EXPECT_EQ(fault(region, Range{kIova + kBytes + 1, 0}), KeyFault::OutOfRange);
  EXPECT_EQ(fault(region, Range{kIova - 1, 1}), KeyFault::OutOfRange);
  EXPECT_EQ(fault(region, Range{kIova + 1, kBytes}), KeyFault::OutOfRange);
  EXPECT_EQ(fault(region, Range{kIova + 1, ~std::uint64_t{0}}), KeyFault::OutOfRange);
  const auto found = table_.find_to_flush(pd_, region.rkey, std::nullopt, Access::FlushGlobal);
  EXPECT_EQ(found.memory.data(), memory_.data());
  EXPECT_EQ(found.memory.size(), kBytes);
}

TEST_F(MemoryFlush, NeedsAKeyOfThisPdThatIsValidAndHasTheRight) {
  const MemoryRegion& region = **table_.add(pd_, kIova, memory_, Access::FlushGlobal);
  const Range some{kIova, 1};
  const auto find = [&](const ProtectionDomain& pd, RKey key, AccessFlags needed) {
    return table_.find_to_flush(pd, key, some, needed).fault;
  };
  EXPECT_EQ(find(other_, region.rkey, Access::FlushGlobal), KeyFault::OtherPd);
  EXPECT_EQ(find(pd_, RKey{region.rkey.value() ^ 1}, Access::FlushGlobal), KeyFault::NoSuchKey);
  EXPECT_EQ(find(pd_, RKey{0xFFFF'FF00}, Access::FlushGlobal), KeyFault::NoSuchKey);
  EXPECT_EQ(find(pd_, region.rkey, Access::FlushPersistent), KeyFault::MissingAccess);
  ASSERT_EQ(table_.invalidate(pd_, region.rkey), KeyFault::None);
  EXPECT_EQ(find(pd_, region.rkey, Access::FlushGlobal), KeyFault::Invalidated);
}

TEST_F(MemoryFlush, FindsTheAddressSpaceAndRegionsOfOtherProcesses) {
  const MemoryRegion& all = **table_.add(
      pd_, 0, {}, AccessFlags{Access::FlushGlobal} | Access::OnDemand, Backing::AddressSpace);
  const auto address = std::bit_cast<std::uint64_t>(&memory_[7]);
  EXPECT_EQ(
      table_.find_to_flush(pd_, all.rkey, Range{address, 3}, Access::FlushGlobal).memory.data(),
      &memory_[7]);
  const RKey far{0x0F00'0001};
  ASSERT_TRUE(table_.import(pd_, far, kIova, kBytes, memory_.data(), Access::FlushGlobal));
  const auto found = table_.find_to_flush(pd_, far, Range{kIova + 9, 1}, Access::FlushGlobal);
  EXPECT_EQ(found.fault, KeyFault::None);
  EXPECT_EQ(found.memory.data(), &memory_[9]);
  const RKey unreachable{0x0F00'0002};
  ASSERT_TRUE(table_.import(pd_, unreachable, kIova, kBytes, nullptr, Access::FlushGlobal));
  EXPECT_EQ(table_.find_to_flush(pd_, unreachable, std::nullopt, Access::FlushGlobal).fault,
            KeyFault::OtherProcess);
}

}  // namespace
}  // namespace weft::hca
