#include "os/mapped_range.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

namespace weft::os {
namespace {

TEST(MappedRangeTest, IsWhatTheKernelShows) {
  const auto range =
      read_mapped_range("7f00a000-7f00c000 r-xs 00003000 fe:01 77             /lib/a b (deleted)");
  ASSERT_TRUE(range);
  EXPECT_EQ(range->first, 0x7f00a000U);
  EXPECT_EQ(range->end, 0x7f00c000U);
  EXPECT_EQ(range->offset, 0x3000U);
  EXPECT_EQ(range->device, 0xfe'0000'0001U);
  EXPECT_EQ(range->inode, 77U);
  EXPECT_EQ(range->path, "/lib/a b (deleted)");
  EXPECT_EQ(range->protection(), PROT_READ | PROT_EXEC);
  EXPECT_FALSE(range->is_writable());
  EXPECT_FALSE(range->is_private());
}

TEST(MappedRangeTest, MayHaveNoName) {
  const auto range = read_mapped_range("1000-2000 rw-p 00000000 00:00 0 ");
  ASSERT_TRUE(range);
  EXPECT_EQ(range->path, "");
  EXPECT_TRUE(range->is_writable());
  EXPECT_TRUE(range->is_private());
}

TEST(MappedRangeTest, IsNoOtherLine) {
  for (const char* const line :
       {"", "Size:                132 kB", "FilePmdMapped:          0 kB", "VmFlags: rd wr",
        "2000-1000 rw-p 00000000 00:00 0", "1000-2000 rw 00000000 00:00 0"}) {
    EXPECT_FALSE(read_mapped_range(line)) << line;
  }
}

}  // namespace
}  // namespace weft::os
