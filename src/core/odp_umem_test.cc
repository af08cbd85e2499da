#include "core/odp_umem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "core/address_space.h"
#include "core/testing/page_table.h"

namespace weft::core {
namespace {

using ::testing::ElementsAre;
using testing::PageTable;

constexpr std::uint64_t kPage = PageTable::kPage;
constexpr std::uint64_t kStart = 0x7F00'0000'0000;
constexpr std::uint64_t kFrames = 0x1'0000'0000;

[[nodiscard]] ErrorCode code_of(const Result<std::uint64_t>& result) {
  return result ? ErrorCode{} : result.error().code;
}

/// Mappings that change whenever their page size is asked for, as by another thread at any time.
class RestlessPageTable final : public PageTable {
 public:
  [[nodiscard]] std::uint32_t page_size() const override {
    if (!std::exchange(is_changing_, true)) {  // whoever hears of it may ask, too
      self_.invalidate(kStart, kStart + kPage);
      ++changes_;
      is_changing_ = false;
    }
    return PageTable::page_size();
  }
  [[nodiscard]] int changes() const { return changes_; }

 private:
  AddressSpace& self_{*this};
  mutable bool is_changing_{};
  mutable int changes_{};
};

class OdpUmemTest : public ::testing::Test {
 protected:
  OdpUmemTest() { space_.map(kStart, 8, kFrames); }
  [[nodiscard]] std::unique_ptr<OdpUmem> get(std::uint64_t address, std::uint64_t length) {
    return *get_odp_umem(space_, address, length,
                         [this](OdpUmem& /*umem*/, std::uint64_t first, std::uint64_t last) {
                           invalidated_.emplace_back(first, last);
                         });
  }

  PageTable space_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> invalidated_;
};

TEST_F(OdpUmemTest, MapsThePagesThatAreAskedForAndPinsNone) {
  const auto umem = get(kStart + 10, 4 * kPage);  // five pages
  EXPECT_EQ(umem->start(), kStart);
  EXPECT_EQ(umem->end(), kStart + 5 * kPage);
  EXPECT_EQ(umem->map_dma_pages(kStart + kPage - 1, 2, kOdpRead, umem->sequence()).value(), 2U);
  EXPECT_EQ(umem->map_dma_pages(kStart + kPage, 1, kOdpWrite, umem->sequence()).value(), 1U);
  EXPECT_THAT(umem->dma_list(),
              ElementsAre(kFrames | kOdpRead, (kFrames + kPage) | kOdpRead | kOdpWrite, 0, 0, 0));
  EXPECT_EQ(umem->mapped_pages(), 2U);
  EXPECT_EQ(space_.pins(), 0U);
  EXPECT_EQ(space_.locked_bytes(), 0U);
}

TEST_F(OdpUmemTest, KnowsWhatNeedsNoFault) {
  const auto umem = get(kStart, 4 * kPage);
  ASSERT_TRUE(umem->map_dma_pages(kStart + kPage, 2 * kPage, kOdpRead, umem->sequence()));
  EXPECT_TRUE(umem->is_mapped(kStart + kPage, 2 * kPage, kOdpRead));
  EXPECT_TRUE(umem->is_mapped(kStart + 2 * kPage - 1, 2, kOdpRead));
  EXPECT_FALSE(umem->is_mapped(kStart + 2 * kPage, 1, kOdpWrite));
  EXPECT_FALSE(umem->is_mapped(kStart + kPage - 1, 2, kOdpRead));
  EXPECT_FALSE(umem->is_mapped(kStart + 3 * kPage - 1, 2, kOdpRead));
  space_.invalidate(kStart + kPage, kStart + 2 * kPage);
  EXPECT_FALSE(umem->is_mapped(kStart + kPage, 1, kOdpRead));
  EXPECT_TRUE(umem->is_mapped(kStart + 2 * kPage, kPage, kOdpRead));
}

TEST_F(OdpUmemTest, RefusesWhatIsOutsideNotThereOrNoAccess) {
  const auto umem = get(kStart, 10 * kPage);  // the last two pages are not there
  const auto map = [&](std::uint64_t address, std::uint64_t length, std::uint64_t access) {
    return umem->map_dma_pages(address, length, access, umem->sequence());
  };
  EXPECT_EQ(code_of(map(kStart, 1, 0)), ErrorCode::InvalidArgument);
  EXPECT_EQ(code_of(map(kStart - 1, 2, kOdpRead)), ErrorCode::BadAddress);
  EXPECT_EQ(code_of(map(kStart + 10 * kPage - 1, 2, kOdpRead)), ErrorCode::BadAddress);
  EXPECT_EQ(code_of(map(kStart + 8, ~std::uint64_t{0}, kOdpRead)), ErrorCode::BadAddress);
  EXPECT_EQ(code_of(map(kStart + 8 * kPage, 1, kOdpRead)), ErrorCode::BadAddress);
  space_.map(kStart, 1, kFrames, false);
  EXPECT_EQ(code_of(map(kStart, 1, kOdpWrite)), ErrorCode::BadAddress);
  EXPECT_EQ(map(kStart, 1, kOdpRead).value(), 1U);
}

// T-ODP-3
TEST_F(OdpUmemTest, IsToTryAgainAfterAnInvalidationAndFindsNoMemoryOfAProcessThatIsGone) {
  const auto umem = get(kStart, 4 * kPage);
  const std::uint64_t before = umem->sequence();
  space_.invalidate(kStart + 3 * kPage, kStart + 6 * kPage);
  EXPECT_EQ(code_of(umem->map_dma_pages(kStart, 1, kOdpRead, before)), ErrorCode::TryAgain);
  EXPECT_EQ(umem->mapped_pages(), 0U);
  EXPECT_EQ(umem->map_dma_pages(kStart, 1, kOdpRead, umem->sequence()).value(), 1U);
  // While the pages are made present.
  space_.on_pin = [&] {
    space_.on_pin = nullptr;
    space_.invalidate(kStart, kStart + 1);
  };
  EXPECT_EQ(code_of(umem->map_dma_pages(kStart, 1, kOdpRead, umem->sequence())),
            ErrorCode::TryAgain);
  EXPECT_EQ(umem->mapped_pages(), 0U);
  EXPECT_EQ(space_.pins(), 0U);
  EXPECT_EQ(umem->map_dma_pages(kStart, 1, kOdpRead, umem->sequence()).value(), 1U);
  space_.lives = false;
  EXPECT_EQ(code_of(umem->map_dma_pages(kStart, 1, kOdpRead, umem->sequence())),
            ErrorCode::NotFound);
}

// R-ODP-4: what is taken away is the intersection, and the driver hears of it first.
TEST_F(OdpUmemTest, LosesThePagesThatChangeAndNoOthers) {
  const auto umem = get(kStart, 4 * kPage);
  ASSERT_TRUE(umem->map_dma_pages(kStart, 4 * kPage, kOdpAccess, umem->sequence()));
  const std::uint64_t before = umem->sequence();
  space_.invalidate(kStart - kPage, kStart + kPage + 1);
  EXPECT_THAT(invalidated_, ElementsAre(std::pair{kStart, kStart + kPage + 1}));
  EXPECT_GT(umem->sequence(), before);
  EXPECT_EQ(umem->mapped_pages(), 2U);
  EXPECT_EQ(umem->dma_list()[1], 0U);
  EXPECT_EQ(umem->dma_list()[2], (kFrames + 2 * kPage) | kOdpAccess);
  const std::uint64_t unchanged = umem->sequence();
  space_.invalidate(kStart + 4 * kPage, kStart + 6 * kPage);  // outside
  EXPECT_EQ(umem->sequence(), unchanged);
  umem->unmap_dma_pages(0, ~std::uint64_t{0});
  EXPECT_EQ(umem->mapped_pages(), 0U);
}

// R-ODP-2
TEST_F(OdpUmemTest, OfAllMemoryHasPartsOfItsOwnButPartsHaveNone) {
  const auto parent = allocate_implicit_odp_umem(space_);
  EXPECT_TRUE(parent->is_implicit());
  EXPECT_EQ(code_of(parent->map_dma_pages(kStart, 1, kOdpRead, 0)), ErrorCode::BadAddress);
  const auto child = *allocate_odp_child(*parent, kStart + kPage, kPage, {});
  EXPECT_EQ(child->map_dma_pages(kStart + kPage, kPage, kOdpRead, child->sequence()).value(), 1U);
  const auto refused = allocate_odp_child(*child, kStart, kPage, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::InvalidArgument);
  EXPECT_FALSE(allocate_odp_child(*parent, ~std::uint64_t{0} - 5, 2, {}));
}

TEST(OdpUmemOfRestlessMemory, HearsNothingBeforeItIsWhole) {
  RestlessPageTable space;
  int calls = 0;
  const auto umem = *get_odp_umem(
      space, kStart, kPage, [&](OdpUmem& of, std::uint64_t /*first*/, std::uint64_t /*last*/) {
        ++calls;
        EXPECT_EQ(of.mapped_pages(), 0U);
      });
  EXPECT_EQ(space.changes(), 2);  // the second from inside the constructor
  EXPECT_EQ(calls, 0);
  space.invalidate(kStart, kStart + kPage);
  EXPECT_GT(calls, 0);
}

TEST_F(OdpUmemTest, HearsNothingOnceItIsGone) {
  get(kStart, kPage).reset();
  space_.invalidate(kStart, kStart + kPage);
  EXPECT_TRUE(invalidated_.empty());
}

}  // namespace
}  // namespace weft::core
