#include "host/placement/mapped_regions.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <thread>

#include "os/peer_file.h"
#include "os/unique_fd.h"

namespace weft::host {
namespace {

constexpr std::size_t kBytes = 8'192;
constexpr std::uint64_t kEpoch = 1;

/// This process is its own peer, with a file that it grants.
class RegionsOfAPeer : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(ftruncate(file_.get(), kBytes), 0);
    ASSERT_EQ(fcntl(file_.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
    std::byte* const memory = static_cast<std::byte*>(
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0));
    auto held = os::find_held_file({memory, kBytes});
    munmap(memory, kBytes);
    ASSERT_TRUE(held);
    held_ = std::move(held->file);
    grant_ = {.epoch = kEpoch,
              .tables = 1,
              .qpn = Qpn{3},
              .rkey = RKey{0x77},
              .iova = 0x1000,
              .length = kBytes,
              .file = held->range,
              .rights = verbs::AccessFlags{verbs::Access::RemoteRead} | verbs::Access::RemoteWrite};
    memory_->words.epoch.value = kEpoch;
  }
  [[nodiscard]] bool is_mapped() {
    const auto found = regions_.find(grant_);
    return found && *found != nullptr;
  }

  os::UniqueFd file_{memfd_create("peer", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  os::UniqueFd held_;
  PlacementGrant grant_;
  std::unique_ptr<PlacementMemory> memory_ = std::make_unique<PlacementMemory>();
  std::atomic<std::uint32_t> claims_{};
  MappedRegions regions_{claims_};
};

TEST_F(RegionsOfAPeer, AreMappedOnce) {
  EXPECT_FALSE(regions_.find(grant_)) << "not tried";
  EXPECT_TRUE(regions_.map(getpid(), grant_));
  EXPECT_TRUE(is_mapped());
  EXPECT_FALSE(regions_.map(getpid(), grant_)) << "it is";
  EXPECT_TRUE(is_mapped());
}

TEST_F(RegionsOfAPeer, AreNotTriedAgainOnceTheyCannotBeMapped) {
  grant_.file.inode += 1;
  EXPECT_FALSE(regions_.map(getpid(), grant_));
  ASSERT_TRUE(regions_.find(grant_));
  EXPECT_EQ(*regions_.find(grant_), nullptr);
  grant_.file.inode -= 1;
  EXPECT_FALSE(regions_.find(grant_)) << "another grant is another matter";
}

TEST_F(RegionsOfAPeer, StayWhileTheyAreGranted) {
  EXPECT_TRUE(regions_.map(getpid(), grant_));
  memory_->slot_of(grant_.qpn, grant_.rkey).write(grant_);
  EXPECT_TRUE(regions_.release(*memory_));
  EXPECT_TRUE(is_mapped());
  memory_->words.epoch.value = kEpoch + 1;
  EXPECT_FALSE(regions_.release(*memory_));
  EXPECT_FALSE(is_mapped());
}

TEST_F(RegionsOfAPeer, StayForWhoHasAClaim) {
  EXPECT_TRUE(regions_.map(getpid(), grant_));
  claims_ = 5;
  std::atomic<bool> is_cleared{};
  std::thread clearer{[&] {
    regions_.clear();
    is_cleared = true;
  }};
  while (is_mapped()) {
    std::this_thread::yield();
  }
  EXPECT_FALSE(is_cleared);
  claims_ = 4;
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_FALSE(is_cleared);
  claims_ = 0;
  clearer.join();
}

}  // namespace
}  // namespace weft::host
