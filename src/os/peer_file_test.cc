#include "os/peer_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <span>

#include "os/process_pages.h"

namespace weft::os {
namespace {

constexpr std::size_t kPages = 4;

/// A file of this process, mapped as its program would.
class PeerFiles : public ::testing::Test {
 protected:
  void make(int seals) {
    file_ = UniqueFd{memfd_create("peer", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
    ASSERT_EQ(ftruncate(file_.get(), static_cast<off_t>(bytes())), 0);
    ASSERT_TRUE(seals == 0 || fcntl(file_.get(), F_ADD_SEALS, seals) == 0);
    void* const at = mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
    ASSERT_NE(at, MAP_FAILED);
    memory_ = {static_cast<std::byte*>(at), bytes()};
  }
  void TearDown() override {
    if (!memory_.empty()) {
      munmap(memory_.data(), memory_.size());
    }
  }
  [[nodiscard]] static std::size_t bytes() { return kPages * page_size(); }

  UniqueFd file_;
  std::span<std::byte> memory_;
};

TEST_F(PeerFiles, AreMappedTwice) {
  make(F_SEAL_SHRINK);
  const std::size_t offset = page_size() + 100;
  const std::span<std::byte> part = memory_.subspan(offset, page_size());
  auto held = find_held_file(part);
  ASSERT_TRUE(held);
  EXPECT_EQ(held->range.offset, offset);
  EXPECT_NE(held->range.descriptor, file_.get());
  file_ = UniqueFd{};  // the program needs it no more
  auto mapped = map_peer_file(getpid(), held->range, part.size(), Protection::ReadWrite);
  ASSERT_TRUE(mapped) << mapped.error().reason;
  EXPECT_NE(mapped->first, part.data());
  std::ranges::fill(std::span{mapped->first, part.size()}, std::byte{0x55});
  EXPECT_TRUE(std::ranges::all_of(part, [](std::byte each) { return each == std::byte{0x55}; }));
  EXPECT_EQ(memory_[offset - 1], std::byte{});
  EXPECT_EQ(memory_[offset + part.size()], std::byte{});
}

TEST_F(PeerFiles, AreNoneThatMayBecomeShorter) {
  make(0);
  EXPECT_FALSE(find_held_file(memory_));
}

TEST_F(PeerFiles, AreNotFoundWithoutADescriptor) {
  make(F_SEAL_SHRINK);
  file_ = UniqueFd{};
  EXPECT_FALSE(find_held_file(memory_));
}

TEST_F(PeerFiles, AreNotThoseOfPrivateMemory) {
  make(F_SEAL_SHRINK);
  void* const at = mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE, file_.get(), 0);
  ASSERT_NE(at, MAP_FAILED);
  EXPECT_FALSE(find_held_file({static_cast<std::byte*>(at), bytes()}));
  munmap(at, bytes());
}

/// What a peer says is checked by who maps it.
TEST_F(PeerFiles, AreRefusedWhereThePeerLies) {
  make(F_SEAL_SHRINK);
  const auto held = find_held_file(memory_);
  ASSERT_TRUE(held);
  const auto is_mapped = [&](const FileRange& range, std::uint64_t length) {
    return map_peer_file(getpid(), range, length, Protection::ReadWrite).has_value();
  };
  EXPECT_TRUE(is_mapped(held->range, bytes()));
  FileRange lie = held->range;
  lie.inode += 1;
  EXPECT_FALSE(is_mapped(lie, bytes())) << "another file";
  EXPECT_FALSE(is_mapped(held->range, bytes() + 1)) << "beyond its end";
  EXPECT_FALSE(is_mapped(held->range, 0));
  lie = held->range;
  lie.offset = ~std::uint64_t{0} - 100;
  EXPECT_FALSE(is_mapped(lie, 200)) << "it wraps";
  lie = held->range;
  lie.descriptor = -1;
  EXPECT_FALSE(is_mapped(lie, bytes()));

  const UniqueFd unsealed{memfd_create("unsealed", MFD_CLOEXEC)};
  ASSERT_EQ(ftruncate(unsealed.get(), static_cast<off_t>(bytes())), 0);
  struct stat status{};
  ASSERT_EQ(fstat(unsealed.get(), &status), 0);
  lie = held->range;
  lie.descriptor = unsealed.get();
  lie.inode = status.st_ino;
  EXPECT_FALSE(is_mapped(lie, bytes())) << "it may become shorter";
}

TEST_F(PeerFiles, ThatNobodyMayWriteAnyMoreAreReadOnly) {
  make(F_SEAL_SHRINK);
  ASSERT_EQ(fcntl(file_.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
  const auto held = find_held_file(memory_);
  ASSERT_TRUE(held);
  EXPECT_FALSE(map_peer_file(getpid(), held->range, bytes(), Protection::ReadWrite));
  EXPECT_TRUE(map_peer_file(getpid(), held->range, bytes(), Protection::ReadOnly));
}

}  // namespace
}  // namespace weft::os
