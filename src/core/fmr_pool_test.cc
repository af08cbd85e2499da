#include "core/fmr_pool.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <utility>
#include <vector>

#include "core/fmr.h"
#include "core/testing/engine_pair.h"

namespace weft::core {
namespace {

using testing::CountedRequest;
using testing::EnginePair;

constexpr std::uint64_t kPage = 4'096;
constexpr verbs::AccessFlags kAll = verbs::AccessFlags{verbs::Access::LocalWrite} |
                                    verbs::Access::RemoteWrite | verbs::Access::RemoteRead;

class FmrPools : public ::testing::Test {
 protected:
  FmrPools() : memory_(10 * kPage) {
    base_ = (std::bit_cast<std::uint64_t>(memory_.data()) + kPage - 1) & ~(kPage - 1);
  }
  ~FmrPools() override {
    if (pool_ != nullptr) {
      destroy_fmr_pool(*pool_);
    }
  }

  void open(FmrPoolParameters parameters) {
    parameters.region = {.max_pages = 4, .access = kAll};
    pool_ = *create_fmr_pool(*pair_.b.pd, parameters);
  }
  [[nodiscard]] std::uint64_t page(std::uint64_t index) const { return base_ + index * kPage; }
  [[nodiscard]] Result<PoolFmr*> map(std::uint64_t index) {
    const std::array pages{page(index)};
    return pool_->map(pages, page(index));
  }
  /// A WRITE of a's to a page of b's.
  [[nodiscard]] verbs::WcStatus write(RKey rkey, std::uint64_t address) {
    CountedRequest request;
    const std::array sges{pair_.a.sge(0, 8)};
    SendWr wr = testing::signaled(request, verbs::WrOpcode::RdmaWrite, sges);
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
  FmrPool* pool_{};
};

// T-FMR-1
TEST_F(FmrPools, HaveNoFifthOfFourRegionsUntilOneIsGivenBack) {
  open({.pool_size = 4});
  std::array<PoolFmr*, 4> mapped{};
  for (std::uint64_t i = 0; i < 4; ++i) {
    mapped.at(i) = *map(i);
  }
  const auto fifth = map(4);
  ASSERT_FALSE(fifth);
  EXPECT_EQ(fifth.error().code, ErrorCode::TryAgain);
  pool_->unmap(*mapped[2]);
  EXPECT_EQ(*map(4), mapped[2]);
  for (PoolFmr* const one : mapped) {
    pool_->unmap(*one);
  }
}

// T-FMR-2
TEST_F(FmrPools, HoldTheirPdAlsoWithoutARegion) {
  Pd* const pd = *allocate_pd(*pair_.b.device);
  FmrPoolParameters none;
  none.pool_size = 0;
  none.region = {.max_pages = 4, .access = kAll};
  FmrPool* const pool = *create_fmr_pool(*pd, none);
  EXPECT_EQ(deallocate_pd(*pd).error().code, ErrorCode::Busy);
  destroy_fmr_pool(*pool);
  EXPECT_TRUE(deallocate_pd(*pd));
}

TEST_F(FmrPools, AreOutOfReachByOldKeysAfterAFlush) {
  open({.pool_size = 2});
  PoolFmr* const one = *map(3);
  const RKey old = one->fmr().rkey;
  pool_->unmap(*one);
  EXPECT_EQ(write(old, page(3)), verbs::WcStatus::Success);
  ASSERT_TRUE(pool_->flush());
  EXPECT_EQ(write(old, page(3)), verbs::WcStatus::RemoteAccessError);
}

// T-FMR-3
TEST_F(FmrPools, ShowTheSameListUnderTheSameKeyAgain) {
  open({.pool_size = 2, .caches = true});
  PoolFmr* const one = *map(1);
  const RKey key = one->fmr().rkey;
  EXPECT_EQ(*map(1), one);  // twice at once
  pool_->unmap(*one);
  pool_->unmap(*one);
  EXPECT_EQ(*map(1), one);
  EXPECT_EQ(one->fmr().rkey, key);
  EXPECT_EQ(one->remaps(), 1U);
  PoolFmr* const other = *map(2);
  EXPECT_NE(other, one);
  pool_->unmap(*one);
  pool_->unmap(*other);
}

// T-FMR-4
TEST_F(FmrPools, HandARegionOutNoMoreThanItMayBeMappedBeforeAFlush) {
  open({.pool_size = 1});
  for (std::uint32_t i = 0; i < kFmrMaxRemaps; ++i) {
    const auto one = map(i % 8);
    ASSERT_TRUE(one) << i;
    pool_->unmap(**one);
  }
  EXPECT_EQ(map(0).error().code, ErrorCode::TryAgain);
  EXPECT_EQ(pool_->counts().dirty, 1U);
  ASSERT_TRUE(pool_->flush());
  const auto one = map(0);
  ASSERT_TRUE(one);
  EXPECT_EQ((*one)->remaps(), 1U);
  pool_->unmap(**one);
}

// R-FMR-3, R-FMR-4: two regions that may not be mapped again start the flusher by themselves.
TEST_F(FmrPools, AreFlushedAtTheWatermarkAndSaySoAfterEachBatch) {
  int batches = 0;
  open({.pool_size = 3,
        .dirty_watermark = 2,
        .flush_function = [](FmrPool&, void* argument) { ++*static_cast<int*>(argument); },
        .flush_argument = &batches});
  RKey last{};
  for (std::uint32_t i = 0; i < 2 * kFmrMaxRemaps; ++i) {  // the list's oldest comes first
    EXPECT_EQ(pool_->counts().dirty, 0U);
    PoolFmr* const one = *map(0);
    last = one->fmr().rkey;
    pool_->unmap(*one);
  }
  // Of three regions that take turns, two have been mapped 21 times and one 22 times.
  while (pool_->counts().dirty < 2) {
    PoolFmr* const one = *map(0);
    last = one->fmr().rkey;
    pool_->unmap(*one);
  }
  EXPECT_EQ(batches, 0);  // the flusher is a task of its own
  pair_.environment.run_all();
  EXPECT_EQ(batches, 1);
  EXPECT_EQ(pool_->counts().dirty, 0U);
  EXPECT_EQ(pool_->counts().free, 3U);
  EXPECT_EQ(write(last, page(0)), verbs::WcStatus::RemoteAccessError);
}

// R-FMR-4
TEST_F(FmrPools, GoOnWithAFlushWhoseWaitWasInterrupted) {
  open({.pool_size = 1});
  PoolFmr* const one = *map(3);
  const RKey old = one->fmr().rkey;
  pool_->unmap(*one);
  const auto interrupted = pool_->flush([] { return true; });
  ASSERT_FALSE(interrupted);
  EXPECT_EQ(interrupted.error().code, ErrorCode::Interrupted);
  pair_.environment.run_all();
  EXPECT_EQ(pool_->counts().free, 1U);
  EXPECT_EQ(write(old, page(3)), verbs::WcStatus::RemoteAccessError);
}

// R-FMR-5
TEST_F(FmrPools, EndWithAllThatIsMappedAndReportIt) {
  open({.pool_size = 3});
  const RKey mapped = (*map(1))->fmr().rkey;
  PoolFmr* const given_back = *map(2);
  pool_->unmap(*given_back);
  EXPECT_EQ(deallocate_pd(*pair_.b.pd).error().code, ErrorCode::Busy);
  const std::uint32_t uses = pair_.b.pd->uses();
  destroy_fmr_pool(*std::exchange(pool_, nullptr));
  EXPECT_EQ(pair_.environment.logged("1 of 3 regions"), 1U);
  EXPECT_EQ(pair_.b.pd->uses(), uses - 4) << "three regions, and the pool";
  EXPECT_EQ(write(mapped, page(1)), verbs::WcStatus::RemoteAccessError);
}

DeviceOperations operations_without_fmrs() {
  DeviceOperations operations = engine::engine_operations();
  operations.map_phys_fmr = nullptr;
  return operations;
}

// R-FMR-1
TEST(FmrPoolsOfOtherDevices, AreNotImplemented) {
  EnginePair pair{{}, {.operations = operations_without_fmrs}};
  const auto refused = create_fmr_pool(*pair.b.pd, {.region = {.max_pages = 1}, .pool_size = 1});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::NotImplemented);
}

TEST_F(FmrPools, RefuseListsThatNoRegionTakes) {
  open({.pool_size = 1});
  EXPECT_EQ(pool_->map({}, 0).error().code, ErrorCode::InvalidArgument);
  const std::vector<std::uint64_t> pages(5, page(0));
  EXPECT_EQ(pool_->map(pages, 0).error().code, ErrorCode::InvalidArgument);
}

}  // namespace
}  // namespace weft::core
