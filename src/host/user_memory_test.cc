#include "host/user_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <bit>

namespace weft::host {
namespace {

/// Four pages that nothing has touched.
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
  EXPECT_TRUE(process_memory().bring_in(range(page_ - 1, 2), true));
  EXPECT_EQ(resident(), 2U);
}

TEST_F(UserMemory, RefusesWhatIsNotThereOrMustNotBeWritten) {
  ASSERT_EQ(mprotect(range(0, page_).data(), page_, PROT_READ), 0);
  EXPECT_TRUE(process_memory().bring_in(range(0, 8), false));
  EXPECT_FALSE(process_memory().bring_in(range(0, 8), true));
  munmap(range(page_, page_).data(), page_);
  EXPECT_FALSE(process_memory().bring_in(range(page_, 1), false));
  EXPECT_FALSE(process_memory().bring_in(range(0, 2 * page_), false));
  EXPECT_FALSE(is_mapped(range(0, 2 * page_)));
  EXPECT_TRUE(is_mapped(range(0, page_)));
}

TEST_F(UserMemory, RefusesAddressesThatNoProgramHas) {
  auto* const last = std::bit_cast<std::byte*>(~std::uintptr_t{0});
  EXPECT_FALSE(process_memory().bring_in({last, 1}, false));
  EXPECT_FALSE(process_memory().bring_in({last, 2}, false));
  auto* const kernel = std::bit_cast<std::byte*>(std::uintptr_t{1} << 63);
  EXPECT_FALSE(process_memory().bring_in({kernel, 8}, true));
  EXPECT_FALSE(is_mapped({kernel, 8}));
}

}  // namespace
}  // namespace weft::host
