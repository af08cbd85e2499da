// Registration by verbs: what is kept, for how long, and where memory is kept for data alone.

#include "ulp/iser/registration.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstddef>
#include <memory>
#include <optional>

#include "core/testing/fake_driver.h"
#include "core/testing/manual_environment.h"

namespace weft::iser {
namespace {

/// Regions of the fake device: how many there are, and of how many bytes each may be.
struct Regions {
  std::uint32_t last{};
  std::uint32_t count{};
  std::uint64_t most_bytes{~std::uint64_t{0}};
};
Regions regions;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): a driver's hook

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

class IserKeptRegistration : public ::testing::Test {
 protected:
  IserKeptRegistration() {
    regions = {};
    EXPECT_TRUE(driver_.register_as("X"));
    pd_ = *core::allocate_pd(driver_.device(), {}, "test");
    pool_ = *RegistrationPool::create(
        *pd_, {.scheme = RegistrationScheme::Verb,
               .count = 4,
               .max_bytes = 1 << 20,
               .kept_memory = [this](std::uint64_t address, std::uint64_t bytes) {
                 return find(address, bytes);
               }});
  }
  ~IserKeptRegistration() override {
    pool_.reset();
    EXPECT_EQ(regions.count, 0U);
    EXPECT_TRUE(core::deallocate_pd(*pd_));
    registry_.unregister_device(driver_.device());
  }

  [[nodiscard]] static std::uint64_t address_of(const std::byte& octet) {
    return std::bit_cast<std::uint64_t>(&octet);
  }
  [[nodiscard]] std::optional<KeptMemory> find(std::uint64_t address, std::uint64_t bytes) const {
    const std::uint64_t begin = address_of(slab_->front());
    if (address < begin || address + bytes > begin + slab_->size()) {
      return std::nullopt;
    }
    return KeptMemory{.address = begin, .length = slab_->size(), .holder = slab_};
  }
  /// Of 512 octets of the slab.
  [[nodiscard]] Result<Registration> map(std::size_t at, bool target_writes) {
    return map_at(address_of((*slab_)[at]), target_writes);
  }
  [[nodiscard]] Result<Registration> map_at(std::uint64_t address, bool target_writes) {
    const core::ScatterEntry entry{.address = address, .length = 512};
    return pool_->map({&entry, 1}, target_writes);
  }

  using Slab = std::array<std::byte, 65'536>;
  std::shared_ptr<Slab> slab_ = std::make_shared<Slab>();
  core::testing::ManualEnvironment environment_;
  core::Registry registry_{environment_};
  core::testing::FakeDriver driver_{registry_, core::kInfinibandPort, with_regions};
  core::Pd* pd_{};
  std::unique_ptr<RegistrationPool> pool_;
};

TEST_F(IserKeptRegistration, IsOneForAllTheMemoryThatIsKeptForData) {
  auto first = map(0, true);
  auto second = map(4'096, true);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->rkey, second->rkey);
  EXPECT_EQ(second->address, first->address + 4'096);
  EXPECT_EQ(regions.count, 1U);
  auto read = map(0, false);  // other rights
  ASSERT_TRUE(read);
  EXPECT_NE(read->rkey, first->rkey);
  for (auto* const one : {&first, &second, &read}) {
    pool_->release(**one);
  }
  EXPECT_EQ(regions.count, 2U) << "kept for the next";
}

TEST_F(IserKeptRegistration, IsOfItsOwnMemoryAnywhereElse) {
  const auto elsewhere = std::make_unique<Slab>();
  auto one = map_at(address_of(elsewhere->front()), true);
  auto other = map_at(address_of((*elsewhere)[512]), true);
  ASSERT_TRUE(one && other);
  EXPECT_NE(one->rkey, other->rkey);
  pool_->release(*one);
  pool_->release(*other);
}

TEST_F(IserKeptRegistration, IsOfItsOwnMemoryWhereNoMoreMayBeLocked) {
  regions.most_bytes = 512;
  auto one = map(0, true);
  ASSERT_TRUE(one);
  EXPECT_EQ(regions.count, 1U);
  auto other = map(512, true);
  ASSERT_TRUE(other);
  EXPECT_EQ(other->rkey, RKey{2});
  pool_->release(*one);
  pool_->release(*other);
}

TEST_F(IserKeptRegistration, EndsSoonAfterItsMemoryIsNoMoreUsedForData) {
  auto old = map(0, true);
  ASSERT_TRUE(old);
  const std::weak_ptr<Slab> gone = slab_;
  slab_ = std::make_shared<Slab>();
  auto next = map(0, true);
  ASSERT_TRUE(next);
  EXPECT_FALSE(gone.expired()) << "a task uses it";
  pool_->release(*old);
  auto read = map(0, false);
  ASSERT_TRUE(read);
  EXPECT_TRUE(gone.expired());
  EXPECT_EQ(regions.count, 2U);
  pool_->release(*next);
  pool_->release(*read);
}

}  // namespace
}  // namespace weft::iser
