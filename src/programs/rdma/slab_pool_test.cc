#include "programs/rdma/slab_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <set>
#include <vector>

#include "os/peer_file.h"

namespace weft::programs::rdma {
namespace {

constexpr std::size_t kSmall = SlabPool::kSmallest;

TEST(SlabPool, GivesPiecesThatDoNotOverlap) {
  SlabPool pool;
  std::vector<SlabPool::Lease> leases;
  std::set<std::uint64_t> addresses;
  for (int i = 0; i < 32; ++i) {
    leases.push_back(*pool.take(i % 2 == 0 ? 36 : kSmall));
    EXPECT_EQ(leases.back()->octets().size(), kSmall);
    EXPECT_TRUE(addresses.insert(leases.back()->address()).second);
    EXPECT_EQ(leases.back()->address() % kSmall, 0U);
    std::ranges::fill(leases.back()->octets(), static_cast<std::byte>(i));
  }
  EXPECT_EQ(pool.size_bytes(), SlabPool::kLeastSlab);
  for (std::size_t i = 0; i < leases.size(); ++i) {
    EXPECT_EQ(std::ranges::count(leases[i]->octets(), static_cast<std::byte>(i)),
              std::ptrdiff_t{kSmall});
  }
}

TEST(SlabPool, GivesWhatCameBackLastAndEachLengthItsOwn) {
  SlabPool pool;
  const SlabPool::Lease other = *pool.take(kSmall);
  std::uint64_t address = 0;
  {
    const SlabPool::Lease one = *pool.take(kSmall);
    address = one->address();
  }
  const SlabPool::Lease longer = *pool.take(kSmall + 1);
  EXPECT_EQ(longer->octets().size(), 2 * kSmall);
  EXPECT_NE(pool.extent_of(longer->address(), 1)->memory.data(),
            pool.extent_of(other->address(), 1)->memory.data());
  EXPECT_EQ((*pool.take(kSmall))->address(), address);
}

TEST(SlabPool, KnowsTheSlabsOfWhatItHasAlone) {
  SlabPool pool;
  const SlabPool::Lease one = *pool.take(kSmall);
  std::byte elsewhere{};
  EXPECT_FALSE(pool.extent_of(std::bit_cast<std::uint64_t>(&elsewhere), 1));
  EXPECT_FALSE(pool.extent_of(one->address(), SlabPool::kLeastSlab + 1));
  EXPECT_FALSE(pool.extent_of(one->address(), ~std::size_t{0}));
  const auto found = pool.extent_of(one->address() + kSmall - 1, 1);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->memory.size(), SlabPool::kLeastSlab);
}

/// So that a target on this machine may place data there.
TEST(SlabPool, IsOfFilesThatOthersCanMap) {
  SlabPool pool;
  const SlabPool::Lease one = *pool.take(kSmall);
  const SlabPool::Lease large = *pool.take(std::size_t{1} << 20);
  EXPECT_TRUE(os::find_held_file(one->octets()));
  EXPECT_TRUE(os::find_held_file(large->octets()));
}

TEST(SlabPool, KeepsNoMoreThanItMayOnceItIsUnused) {
  SlabPool pool;
  constexpr std::size_t kHuge = SlabPool::kMostSlab * 2;
  {
    std::vector<SlabPool::Lease> leases;
    for (std::size_t i = 0; i < 4; ++i) {
      leases.push_back(*pool.take(kHuge));
    }
    EXPECT_EQ(pool.size_bytes(), 4 * kHuge);
  }
  EXPECT_EQ(pool.size_bytes(), SlabPool::kKept);
}

TEST(SlabPool, KeepsTheMemoryOfASlabThatIsHeld) {
  SlabPool pool;
  constexpr std::size_t kHuge = SlabPool::kKept * 2;
  std::optional<SlabPool::Extent> held;
  {
    const SlabPool::Lease lease = *pool.take(kHuge);
    lease->octets().front() = std::byte{7};
    held = pool.extent_of(lease->address(), kHuge);
  }
  EXPECT_EQ(pool.size_bytes(), 0U);
  ASSERT_TRUE(held);
  EXPECT_EQ(held->memory.front(), std::byte{7});
}

}  // namespace
}  // namespace weft::programs::rdma
