#include "core/umem.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <numeric>
#include <vector>

#include "core/testing/engine_pair.h"
#include "core/testing/page_table.h"

namespace weft::core {
namespace {

using testing::PageTable;

constexpr std::uint64_t kPage = PageTable::kPage;
constexpr std::uint64_t k64K = 1U << 16;
constexpr std::uint64_t k2M = 1U << 21;
constexpr std::uint64_t kStart = 0x7F00'0000'0000;
constexpr std::uint64_t kFrames = 0x1'0000'0000;  // frames that nothing is read of
constexpr verbs::AccessFlags kReads{verbs::Access::RemoteRead};
constexpr verbs::AccessFlags kWrites{verbs::Access::LocalWrite};

class UmemTest : public ::testing::Test {
 protected:
  [[nodiscard]] Result<std::unique_ptr<Umem>> get(std::uint64_t address, std::uint64_t length,
                                                  verbs::AccessFlags access = kWrites) {
    return get_umem(*pair_.a.device, space_, address, length, access);
  }
  [[nodiscard]] ErrorCode code_of(std::uint64_t address, std::uint64_t length,
                                  verbs::AccessFlags access = kWrites) {
    const auto umem = get(address, length, access);
    EXPECT_EQ(space_.pins(), 0U);
    EXPECT_EQ(space_.locked_bytes(), 0U);
    return umem ? ErrorCode{} : umem.error().code;
  }

  testing::EnginePair pair_;
  PageTable space_;
};

// R-UM-1
TEST_F(UmemTest, PinsItsPagesAndMergesNeighbours) {
  space_.map(kStart, 3, kFrames);
  space_.map(kStart + 3 * kPage, 1, kFrames + 8 * kPage);
  space_.map(kStart + 4 * kPage, 2, kFrames + 9 * kPage);
  const auto umem = *get(kStart + 100, 5 * kPage);  // ends in the sixth page
  EXPECT_EQ(umem->page_count(), 6U);
  EXPECT_EQ(umem->offset(), 100U);
  ASSERT_EQ(umem->list().size(), 2U);
  EXPECT_EQ(umem->list()[0].address, kFrames);
  EXPECT_EQ(umem->list()[0].length, 3 * kPage);
  EXPECT_EQ(umem->list()[1].address, kFrames + 8 * kPage);
  EXPECT_EQ(umem->list()[1].length, 3 * kPage);
  EXPECT_EQ(space_.pins(), 6U);
  EXPECT_EQ(space_.locked_bytes(), 6 * kPage);
}

// R-UM-1
TEST_F(UmemTest, IsRefusedWhereItWrapsOrIsNothing) {
  EXPECT_EQ(code_of(kStart, 0), ErrorCode::InvalidArgument);
  EXPECT_EQ(code_of(~std::uint64_t{0} - 10, 100), ErrorCode::InvalidArgument);
  EXPECT_EQ(code_of(~std::uint64_t{0} - 10, 5), ErrorCode::InvalidArgument);  // rounded up
}

// R-UM-1, R-UM-2: what only reads may be of read-only pages, and leaves them clean.
TEST_F(UmemTest, IsWritableUnlessItsAccessIsReadOnly) {
  space_.map(kStart, 2, kFrames, false);
  EXPECT_EQ(code_of(kStart, kPage), ErrorCode::BadAddress);
  EXPECT_EQ(code_of(kStart, kPage, verbs::Access::RemoteAtomic), ErrorCode::BadAddress);
  EXPECT_EQ(code_of(kStart, kPage, verbs::Access::MemoryWindowBind), ErrorCode::BadAddress);
  auto reading = *get(kStart, kPage, kReads);
  EXPECT_FALSE(reading->is_writable());
  reading.reset();
  EXPECT_FALSE(space_.pages[kStart].is_dirty);
  space_.map(kStart, 1, kFrames);
  auto writing = *get(kStart, kPage);
  EXPECT_TRUE(writing->is_writable());
  writing.reset();
  EXPECT_TRUE(space_.pages[kStart].is_dirty);
}

// T-UM-1
TEST_F(UmemTest, OfAHugePageIsShownByThatUnlessItsAddressesDoNotMatch) {
  space_.map(kStart, k2M / kPage, kFrames);
  const auto umem = *get(kStart, k2M);
  ASSERT_EQ(umem->list().size(), 1U);
  constexpr std::uint64_t kSizes = kPage | k64K | k2M;
  EXPECT_EQ(best_page_size(*umem, kSizes, kStart), k2M);
  EXPECT_EQ(best_page_size(*umem, kSizes, k2M), k2M);
  EXPECT_EQ(best_page_size(*umem, kSizes, kStart + kPage), kPage);
  EXPECT_EQ(best_page_size(*umem, kSizes, kStart + k64K), k64K);
  EXPECT_EQ(best_page_size(*umem, kSizes, 0), k2M);
}

// T-UM-2
TEST_F(UmemTest, HasNoPageSizeWhereNoneFits) {
  for (std::uint64_t i = 0; i < k2M / kPage; ++i) {
    space_.map(kStart + i * kPage, 1, kFrames + 2 * i * kPage);
  }
  const auto umem = *get(kStart, k2M);
  EXPECT_EQ(best_page_size(*umem, k2M, kStart), 0U);
  EXPECT_EQ(best_page_size(*umem, k2M | kPage, kStart), kPage);
  EXPECT_EQ(best_page_size(*umem, 512, kStart), 512U);
}

// R-UM-3: boundaries limit pages, but for the first start and the last end.
TEST_F(UmemTest, IsShownByPagesThatEndWhereItsElementsDo) {
  space_.map(kStart + k64K - kPage, 1, kFrames + k64K - kPage);  // the end of a 64K page
  space_.map(kStart + k64K, 16, kFrames + 8 * k64K);             // a whole one
  space_.map(kStart + 2 * k64K, 3, kFrames + 4 * k64K);          // the beginning of one
  auto umem = *get(kStart + k64K - kPage + 5, k64K + 3 * kPage);
  ASSERT_EQ(umem->list().size(), 3U);
  const std::uint64_t iova = umem->address();
  EXPECT_EQ(best_page_size(*umem, kPage | k64K | k2M, iova), k64K);
  umem.reset();
  space_.map(kStart + k64K, 16, kFrames + 8 * k64K + kPage);  // which begins within one
  const auto shifted = *get(kStart + k64K - kPage + 5, k64K + 3 * kPage);
  EXPECT_EQ(best_page_size(*shifted, kPage | k64K | k2M, iova), kPage);
}

// T-UM-3
TEST_F(UmemTest, PinsNothingOverAHoleOrTheLimitAndGivesTheLimitBack) {
  space_.map(kStart, 2'000, kFrames);
  space_.pages.erase(kStart + 1'500 * kPage);  // behind what is pinned by the first calls
  EXPECT_EQ(code_of(kStart, 2'000 * kPage), ErrorCode::BadAddress);
  space_.limit = 10 * kPage;
  EXPECT_EQ(code_of(kStart, 11 * kPage), ErrorCode::OutOfMemory);
  auto nine = *get(kStart, 9 * kPage);
  const auto two = get(kStart, kPage + 1);
  ASSERT_FALSE(two);
  EXPECT_EQ(two.error().code, ErrorCode::OutOfMemory);
  EXPECT_EQ(space_.locked_bytes(), 9 * kPage);
  EXPECT_TRUE(get(kStart, kPage));
  nine.reset();
  EXPECT_EQ(space_.locked_bytes(), 0U);
  EXPECT_TRUE(get(kStart, 10 * kPage));
  space_.limit = 0;
  EXPECT_EQ(code_of(kStart, 1), ErrorCode::PermissionDenied);
}

// T-UM-4
TEST_F(UmemTest, IsGotAndReleasedAHundredThousandTimesWithoutGrowth) {
  space_.map(kStart, 4, kFrames);
  for (int i = 0; i < 100'000; ++i) {
    ASSERT_TRUE(get(kStart + 1, 3 * kPage));
  }
  EXPECT_EQ(space_.pins(), 0U);
  EXPECT_EQ(space_.locked_bytes(), 0U);
  EXPECT_EQ(space_.pages.size(), 4U);
}

TEST_F(UmemTest, IsCopiedFromAcrossItsElements) {
  std::vector<std::byte> memory(5 * kPage);
  for (std::size_t i = 0; i < memory.size(); ++i) {
    memory[i] = static_cast<std::byte>((i * 7 + i / kPage) & 0xFF);
  }
  const std::uint64_t frame =
      (std::bit_cast<std::uint64_t>(memory.data()) + kPage - 1) & ~(kPage - 1);
  const auto bytes_at = [](std::uint64_t address, std::size_t length) {
    return std::span{std::bit_cast<const std::byte*>(address), length};
  };
  space_.map(kStart, 1, frame + 2 * kPage);
  space_.map(kStart + kPage, 1, frame);
  const auto umem = *get(kStart + 10, 2 * kPage - 10, kReads);
  std::array<std::byte, 20> into{};
  ASSERT_TRUE(umem->copy_from(kPage - 20, into));  // the last 10 of one page, 10 of the next
  EXPECT_TRUE(std::ranges::equal(std::span{into}.first(10), bytes_at(frame + 3 * kPage - 10, 10)));
  EXPECT_TRUE(std::ranges::equal(std::span{into}.subspan(10), bytes_at(frame, 10)));
  ASSERT_TRUE(umem->copy_from(2 * kPage - 30, into));
  EXPECT_TRUE(std::ranges::equal(into, bytes_at(frame + kPage - 20, 20)));
  EXPECT_EQ(umem->copy_from(2 * kPage - 29, into).error().code, ErrorCode::InvalidArgument);
  EXPECT_EQ(umem->copy_from(~std::uint64_t{0}, into).error().code, ErrorCode::InvalidArgument);
}

}  // namespace
}  // namespace weft::core
