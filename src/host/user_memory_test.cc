#include "host/user_memory.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cstdlib>
#include <fstream>
#include <string>

#include "os/shared_backing.h"
#include "os/unique_fd.h"

namespace weft::host {
namespace {

/// Four pages that were never touched.
class UserMemory : public ::testing::Test {
 protected:
  UserMemory()
      : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))),
        start_(
            mmap(nullptr, 4 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  ~UserMemory() override { munmap(start_, 4 * page_); }

  [[nodiscard]] std::span<std::byte> range(std::size_t offset, std::size_t length) const {
    return {static_cast<std::byte*>(start_) + offset, length};
  }
  [[nodiscard]] std::size_t resident() const {
    std::array<unsigned char, 4> pages{};
    EXPECT_EQ(mincore(start_, 4 * page_, pages.data()), 0);
    std::size_t count = 0;
    for (const unsigned char page : pages) {
      count += page & 1U;
    }
    return count;
  }

  std::size_t page_;
  void* start_;
};

TEST_F(UserMemory, BringsInOnlyThePagesOfTheRange) {  // T-ODP-1, part of T-ODP-5
  EXPECT_EQ(resident(), 0U);
  EXPECT_TRUE(process_memory().fault_in(range(page_ - 1, 2), true));
  EXPECT_EQ(resident(), 2U);
}

TEST_F(UserMemory, RefusesWhatIsNotThereOrMustNotBeWritten) {
  ASSERT_EQ(mprotect(range(0, page_).data(), page_, PROT_READ), 0);
  EXPECT_TRUE(process_memory().fault_in(range(0, 8), false));
  EXPECT_FALSE(process_memory().fault_in(range(0, 8), true));
  munmap(range(page_, page_).data(), page_);
  EXPECT_FALSE(process_memory().fault_in(range(page_, 1), false));
  EXPECT_FALSE(process_memory().fault_in(range(0, 2 * page_), false));
  EXPECT_FALSE(is_mapped(range(0, 2 * page_)));
  EXPECT_TRUE(is_mapped(range(0, page_)));
}

/// Dirty bytes of the mapping at `start`, according to the kernel.
std::size_t dirty_bytes(const void* start) {
  std::ifstream smaps{"/proc/self/smaps"};
  const std::string begins = fmt::format("{:x}-", std::bit_cast<std::uintptr_t>(start));
  std::size_t kilobytes = 0;
  bool is_here = false;
  for (std::string line; std::getline(smaps, line);) {
    if (!line.starts_with("Shared_Dirty:") && !line.starts_with("Private_Dirty:")) {
      is_here = line.find('-') < line.find(' ') ? line.starts_with(begins) : is_here;
    } else if (is_here) {
      kilobytes += std::stoul(line.substr(line.find(':') + 1));
    }
  }
  return kilobytes * 1024;
}

TEST_F(UserMemory, PersistsWhatAFileKeeps) {  // IBTA vol 1 annex A19
  std::string name = ::testing::TempDir() + "weft-persist-XXXXXX";
  const os::UniqueFd file{mkstemp(name.data())};
  ASSERT_TRUE(file);
  ASSERT_EQ(ftruncate(file.get(), static_cast<off_t>(page_)), 0);
  void* const mapped = mmap(nullptr, page_, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  const std::span memory{static_cast<std::byte*>(mapped), page_};
  EXPECT_TRUE(os::is_file_mapping(memory));
  EXPECT_FALSE(os::is_file_mapping(range(0, 8))) << "private memory";
  memory[5] = std::byte{7};
  EXPECT_EQ(dirty_bytes(mapped), page_);
  EXPECT_TRUE(process_memory().persist(memory.subspan(5, 1)));
  struct statfs system{};
  ASSERT_EQ(fstatfs(file.get(), &system), 0);
  if (system.f_type != TMPFS_MAGIC) {  // tmpfs has no other storage
    EXPECT_EQ(dirty_bytes(mapped), 0U);
  }
  unlink(name.c_str());
  EXPECT_FALSE(os::is_file_mapping(memory)) << "nobody can open it any more";
  munmap(mapped, page_);
  EXPECT_FALSE(process_memory().persist(memory));
}

TEST_F(UserMemory, RefusesAddressesThatNoProgramHas) {
  auto* const last = std::bit_cast<std::byte*>(~std::uintptr_t{0});
  EXPECT_FALSE(process_memory().fault_in({last, 1}, false));
  EXPECT_FALSE(process_memory().fault_in({last, 2}, false));
  auto* const kernel = std::bit_cast<std::byte*>(std::uintptr_t{1} << 63);
  EXPECT_FALSE(process_memory().fault_in({kernel, 8}, true));
  EXPECT_FALSE(is_mapped({kernel, 8}));
}

}  // namespace
}  // namespace weft::host
