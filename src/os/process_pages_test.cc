#include "os/process_pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <bit>
#include <vector>

namespace weft::os {
namespace {

class ProcessPages : public ::testing::Test {
 protected:
  ProcessPages()
      : memory_(mmap(nullptr, 4 * page_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                     -1, 0)) {}
  ~ProcessPages() override { munmap(memory_, 4 * page_size()); }

  [[nodiscard]] std::uint64_t page(unsigned i) const {
    return std::bit_cast<std::uint64_t>(memory_) + std::uint64_t{i} * page_size();
  }
  [[nodiscard]] unsigned present() const {
    std::vector<unsigned char> resident(4);
    EXPECT_EQ(mincore(memory_, 4 * page_size(), resident.data()), 0);
    unsigned count = 0;
    for (const unsigned char one : resident) {
      count += one & 1U;
    }
    return count;
  }
  void* memory_;
};

TEST_F(ProcessPages, AreMadePresentWhereTheyAreAskedFor) {
  EXPECT_EQ(present(), 0U);
  EXPECT_TRUE(populate(page(1), 2 * page_size(), true));
  EXPECT_EQ(present(), 2U);
}

TEST_F(ProcessPages, AreRefusedWhereNoneIsOrMayNotBeWritten) {
  ASSERT_EQ(munmap(std::bit_cast<void*>(page(2)), page_size()), 0);
  EXPECT_EQ(populate(page(1), 2 * page_size(), false).error().code, ErrorCode::BadAddress);
  EXPECT_EQ(lock_pages(page(1), 2 * page_size()).error().code, ErrorCode::BadAddress);
  ASSERT_EQ(mprotect(memory_, page_size(), PROT_READ), 0);
  EXPECT_EQ(populate(page(0), page_size(), true).error().code, ErrorCode::BadAddress);
  EXPECT_TRUE(populate(page(0), page_size(), false));
}

TEST_F(ProcessPages, ThatAreLockedAreNotDropped) {
  if (lock_limit() < 4 * page_size()) {
    EXPECT_FALSE(lock_pages(page(0), 4 * page_size()));
    return;
  }
  ASSERT_TRUE(lock_pages(page(0), page_size()));
  EXPECT_NE(madvise(memory_, page_size(), MADV_DONTNEED), 0);
  unlock_pages(page(0), page_size());
  EXPECT_EQ(madvise(memory_, page_size(), MADV_DONTNEED), 0);
}

}  // namespace
}  // namespace weft::os
