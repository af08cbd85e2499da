#include "host/placement/shared_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstddef>

#include "os/unique_fd.h"

namespace weft::host {
namespace {

constexpr std::size_t kBytes = 8'192;

/// Memory of a sealed file.
class FilesOfRegions : public ::testing::Test {
 protected:
  FilesOfRegions() {
    EXPECT_EQ(ftruncate(file_.get(), kBytes), 0);
    EXPECT_EQ(fcntl(file_.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
    memory_ = static_cast<std::byte*>(
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0));
  }
  ~FilesOfRegions() override { munmap(memory_, kBytes); }
  FilesOfRegions(const FilesOfRegions&) = delete;
  FilesOfRegions& operator=(const FilesOfRegions&) = delete;

  [[nodiscard]] bool has_file(const int& region) {
    hca::PlaceableMemory memory;
    memory.length = kBytes;
    memory.memory = memory_;
    memory.region = &region;
    return files_.find(memory).descriptor >= 0;
  }

  os::UniqueFd file_{memfd_create("regions", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  std::byte* memory_{};
  SharedFiles files_;
  std::array<int, SharedFiles::kMost + 1> regions_{};
};

TEST_F(FilesOfRegions, AreLookedForOnceInTheLifeOfEach) {
  EXPECT_TRUE(has_file(regions_[0]));
  file_ = os::UniqueFd{};
  EXPECT_TRUE(has_file(regions_[0])) << "known, and held open";
  files_.forget(&regions_[0]);
  EXPECT_FALSE(has_file(regions_[0])) << "looked for again";
}

TEST_F(FilesOfRegions, AreHeldFromTheRegistrationOn) {
  files_.hold(&regions_[0], {memory_, kBytes});
  file_ = os::UniqueFd{};
  EXPECT_TRUE(has_file(regions_[0]));
  files_.forget(&regions_[0]);
  files_.hold(&regions_[0], {memory_, kBytes});
  EXPECT_FALSE(has_file(regions_[0])) << "nobody has it open";
}

TEST_F(FilesOfRegions, MayBecomeSuitableAfterTheRegistration) {
  const os::UniqueFd file{memfd_create("sealed-later", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  ASSERT_EQ(ftruncate(file.get(), kBytes), 0);
  ASSERT_NE(mmap(memory_, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file.get(), 0),
            MAP_FAILED);
  files_.hold(&regions_[0], {memory_, kBytes});
  ASSERT_EQ(fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_TRUE(has_file(regions_[0]));
}

TEST_F(FilesOfRegions, AreNotLookedForAgainWhereThereWasNone) {
  std::byte* const before = memory_;
  memory_ = nullptr;
  EXPECT_FALSE(has_file(regions_[0]));
  memory_ = before;
  EXPECT_FALSE(has_file(regions_[0]));
  EXPECT_TRUE(has_file(regions_[1]));
}

TEST_F(FilesOfRegions, AreBounded) {
  for (std::size_t i = 0; i < SharedFiles::kMost; ++i) {
    EXPECT_TRUE(has_file(regions_.at(i)));
  }
  EXPECT_FALSE(has_file(regions_.back()));
  files_.forget(&regions_.front());
  EXPECT_TRUE(has_file(regions_.back()));
}

}  // namespace
}  // namespace weft::host
