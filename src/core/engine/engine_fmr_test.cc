#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "core/fmr.h"
#include "core/testing/engine_pair.h"

namespace weft::core::engine {
namespace {

using core::testing::CountedRequest;
using core::testing::EnginePair;

constexpr std::uint64_t kPage = 4'096;
constexpr FmrAttributes kTwoPages{
    .max_pages = 2,
    .access = verbs::AccessFlags{verbs::Access::LocalWrite} | verbs::Access::RemoteWrite};

class EngineFmr : public ::testing::Test {
 protected:
  EngineFmr() : memory_(5 * kPage) {
    base_ = (std::bit_cast<std::uint64_t>(memory_.data()) + kPage - 1) & ~(kPage - 1);
  }

  /// How a WRITE of a's ends that b's region may or may not take.
  [[nodiscard]] verbs::WcStatus write(RKey rkey, std::uint64_t address, std::uint32_t length) {
    CountedRequest request;
    const std::array sges{pair_.a.sge(0, length)};
    SendWr wr = core::testing::signaled(request, verbs::WrOpcode::RdmaWrite, sges);
    wr.remote_address = address;
    wr.rkey = rkey;
    EXPECT_TRUE(post_send(*pair_.a.qp, wr));
    pair_.environment.wait_until([&] { return request.calls != 0; },
                                 pair_.environment.now() + Duration::seconds(30));
    return request.status;
  }

  EnginePair pair_;
  std::vector<std::byte> memory_;
  std::uint64_t base_{};
};

TEST_F(EngineFmr, ShowsPagesInTheirOrderFromTheAddressThatWasAskedFor) {
  Fmr* const fmr = *allocate_fmr(*pair_.b.pd, kTwoPages);
  const std::array pages{base_ + 3 * kPage, base_ + kPage};
  constexpr std::uint64_t kIova = 0x7000'0000;
  ASSERT_TRUE(map_phys_fmr(*fmr, pages, kIova));
  std::ranges::fill(pair_.a.memory, std::byte{0xAB});
  // The last byte of the first page of the list, and the first of the second.
  ASSERT_EQ(write(fmr->rkey, kIova + kPage - 1, 2), verbs::WcStatus::Success);
  EXPECT_EQ(*std::bit_cast<std::byte*>(base_ + 4 * kPage - 1), std::byte{0xAB});
  EXPECT_EQ(*std::bit_cast<std::byte*>(base_ + kPage), std::byte{0xAB});
  EXPECT_EQ(std::ranges::count(memory_, std::byte{0xAB}), 2);
  EXPECT_EQ(write(fmr->rkey, kIova + 2 * kPage - 1, 2), verbs::WcStatus::RemoteAccessError);
  EXPECT_TRUE(deallocate_fmr(*fmr));
}

TEST_F(EngineFmr, IsOutOfReachByItsOldKeyOnceItIsMappedAnew) {
  Fmr* const fmr = *allocate_fmr(*pair_.b.pd, kTwoPages);
  const std::array first{base_};
  const std::array second{base_ + kPage};
  ASSERT_TRUE(map_phys_fmr(*fmr, first, 0));
  const RKey old = fmr->rkey;
  ASSERT_TRUE(map_phys_fmr(*fmr, second, 0));
  EXPECT_NE(fmr->rkey, old);
  EXPECT_EQ(write(old, 0, 8), verbs::WcStatus::RemoteAccessError);
  EXPECT_TRUE(deallocate_fmr(*fmr));
}

TEST_F(EngineFmr, RegionsOfSeveralPdsAreUnmappedByOneCall) {
  Pd* const other = *allocate_pd(*pair_.b.device);
  std::array<Fmr*, 3> fmrs{*allocate_fmr(*other, kTwoPages), *allocate_fmr(*pair_.b.pd, kTwoPages),
                           *allocate_fmr(*other, kTwoPages)};
  const std::array page{base_};
  for (Fmr* const fmr : fmrs) {
    ASSERT_TRUE(map_phys_fmr(*fmr, page, 0));
  }
  ASSERT_EQ(write(fmrs[1]->rkey, 0, 8), verbs::WcStatus::Success);
  ASSERT_TRUE(unmap_fmrs(fmrs));
  EXPECT_EQ(write(fmrs[1]->rkey, 0, 8), verbs::WcStatus::RemoteAccessError);
  EXPECT_EQ(deallocate_pd(*other).error().code, ErrorCode::Busy);
  for (Fmr* const fmr : fmrs) {
    EXPECT_TRUE(deallocate_fmr(*fmr));
  }
  EXPECT_TRUE(deallocate_pd(*other));
}

TEST_F(EngineFmr, RefusesPagesAndListsThatItIsNotFor) {
  FmrAttributes attributes = kTwoPages;
  attributes.page_shift = 70;
  EXPECT_EQ(allocate_fmr(*pair_.b.pd, attributes).error().code, ErrorCode::InvalidArgument);
  Fmr* const fmr = *allocate_fmr(*pair_.b.pd, kTwoPages);
  const std::vector<std::uint64_t> pages(3, base_);
  EXPECT_EQ(map_phys_fmr(*fmr, pages, 0).error().code, ErrorCode::InvalidArgument);
  EXPECT_EQ(map_phys_fmr(*fmr, {}, 0).error().code, ErrorCode::InvalidArgument);
  EXPECT_TRUE(deallocate_fmr(*fmr));
}

}  // namespace
}  // namespace weft::core::engine
