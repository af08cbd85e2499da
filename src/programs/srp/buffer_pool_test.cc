#include "programs/srp/buffer_pool.h"

#include <gtest/gtest.h>

#include <bit>
#include <memory>
#include <vector>

#include "core/mr.h"
#include "core/testing/fake_driver.h"
#include "core/testing/manual_environment.h"

namespace weft::programs::srp {
namespace {

constexpr std::size_t kSmall = rdma::SlabPool::kSmallest;

/// Regions of the fake device: how many there are, and of how many bytes each may be.
struct Regions {
  std::uint32_t last{};
  std::uint32_t count{};
  std::uint64_t most_bytes{~std::uint64_t{0}};
};
Regions regions;

void with_regions(core::DeviceInit& init) {
  init.operations.register_user_mr = [](core::Mr& mr, const core::UserMemoryRange& range,
                                        verbs::AccessFlags /*access*/,
                                        core::UserData* /*data*/) -> Result<void> {
    if (range.length > regions.most_bytes) {
      return fail(ErrorCode::OutOfMemory, "a limit of locked memory");
    }
    ++regions.count;
    mr.rkey = RKey{++regions.last};
    return {};
  };
  init.operations.deregister_mr = [](core::Mr& /*mr*/, core::UserData* /*data*/) -> Result<void> {
    --regions.count;
    return {};
  };
}

class BufferPoolTest : public ::testing::Test {
 protected:
  BufferPoolTest() {
    regions = {};
    EXPECT_TRUE(driver_.register_as("X"));
    pd_ = *core::allocate_pd(driver_.device(), {}, "test");
    pool_ = std::make_unique<BufferPool>(*pd_);
  }
  ~BufferPoolTest() override {
    pool_.reset();
    EXPECT_EQ(regions.count, 0U);
    EXPECT_TRUE(core::deallocate_pd(*pd_));
    registry_.unregister_device(driver_.device());
  }
  [[nodiscard]] RKey key_of(const BufferPool::Lease& lease) const {
    return pool_->key_of(lease->address(), lease->octets().size()).value_or(RKey{});
  }

  core::testing::ManualEnvironment environment_;
  core::Registry registry_{environment_};
  core::testing::FakeDriver driver_{registry_, core::kInfinibandPort, with_regions};
  core::Pd* pd_{};
  std::unique_ptr<BufferPool> pool_;
};

TEST_F(BufferPoolTest, RegistersASlabOnceForAllItsBuffers) {
  std::vector<BufferPool::Lease> leases;
  for (int i = 0; i < 32; ++i) {
    leases.push_back(*pool_->take(kSmall));
    EXPECT_EQ(key_of(leases.back()), RKey{1});
  }
  EXPECT_EQ(regions.count, 1U);
  const BufferPool::Lease longer = *pool_->take(kSmall + 1);
  EXPECT_EQ(key_of(longer), RKey{2});
}

TEST_F(BufferPoolTest, KnowsTheKeysOfWhatItHasAlone) {
  const BufferPool::Lease one = *pool_->take(kSmall);
  std::byte elsewhere{};
  EXPECT_FALSE(pool_->key_of(std::bit_cast<std::uint64_t>(&elsewhere), 1));
  EXPECT_FALSE(pool_->key_of(one->address(), ~std::size_t{0}));
  EXPECT_TRUE(pool_->key_of(one->address() + kSmall - 1, 1));
}

TEST_F(BufferPoolTest, TakesWhatThereIsWhereNoSlabMayBeLocked) {
  regions.most_bytes = std::uint64_t{1} << 20;
  const BufferPool::Lease one = *pool_->take(std::size_t{1} << 20);
  const BufferPool::Lease two = *pool_->take(std::size_t{1} << 20);
  EXPECT_EQ(regions.count, 2U);
  EXPECT_FALSE(pool_->take(std::size_t{2} << 20));
}

TEST_F(BufferPoolTest, EndsTheRegistrationsOfSlabsThatGo) {
  constexpr std::size_t kHuge = rdma::SlabPool::kKept * 2;
  static_cast<void>(*pool_->take(kHuge));
  EXPECT_EQ(regions.last, 1U);
  EXPECT_EQ(regions.count, 0U);
}

}  // namespace
}  // namespace weft::programs::srp
