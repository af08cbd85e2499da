#include "os/heap.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <thread>

#include "base/sanitizers.h"

namespace weft::os {
namespace {

constexpr bool kHasOwnAllocator = WEFT_ADDRESS_SANITIZER || WEFT_THREAD_SANITIZER;

/// Whether what is freed is mapped afterwards, of sizes that are pieces of their own by default; in
/// a child, since nothing takes it back.
int child() {
  use_one_heap();
  bool is_kept = false;
  std::thread{[&is_kept] { is_kept = keep_freed_memory_mapped().has_value(); }}.join();
  for (std::size_t bytes = 64U << 10; bytes <= 64U << 20; bytes *= 4) {
    void* const piece = std::malloc(bytes);
    volatile std::byte* const middle = static_cast<std::byte*>(piece) + bytes / 2;
    *middle = std::byte{1};
    const volatile std::uint64_t at = std::bit_cast<std::uint64_t>(middle) / 4096 * 4096;
    std::free(piece);
    unsigned char resident = 0;
    if (is_kept && mincore(std::bit_cast<void*>(at), 4096, &resident) != 0) {
      return 2;
    }
  }
  return is_kept ? 0 : 1;
}

TEST(Heap, KeepsFreedMemoryMappedOrSaysThatItCannot) {
  const pid_t pid = fork();
  if (pid == 0) {
    _exit(child());
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), kHasOwnAllocator ? 1 : 0);
}

TEST(Heap, IsWhereTheBreakIs) {
  const auto range = heap_range();
  if (range) {
    EXPECT_LT(range->begin, range->end);
    EXPECT_EQ(range->end, std::bit_cast<std::uint64_t>(sbrk(0)));
  } else {
    EXPECT_TRUE(kHasOwnAllocator);
  }
}

TEST(Heap, KnowsWhatLiesInIt) {
  const auto range = heap_range();
  if (!range) {
    EXPECT_TRUE(kHasOwnAllocator);
    EXPECT_FALSE(is_in_heap(4096, 1));
    return;
  }
  const std::uint64_t length = range->end - range->begin;
  EXPECT_TRUE(is_in_heap(range->begin, length));
  EXPECT_TRUE(is_in_heap(range->end - 1, 1));
  EXPECT_FALSE(is_in_heap(range->begin - 1, 2));
  EXPECT_FALSE(is_in_heap(range->end - 1, 2));
  EXPECT_FALSE(is_in_heap(range->end + 1, 0));
  EXPECT_FALSE(is_in_heap(range->begin + 1, ~std::uint64_t{0}));
  const std::byte on_stack{};
  EXPECT_FALSE(is_in_heap(std::bit_cast<std::uint64_t>(&on_stack), 1));
  // What is added to it is of it at once.
  if (const void* const before = sbrk(8192); before != std::bit_cast<void*>(~std::uint64_t{0})) {
    EXPECT_TRUE(is_in_heap(std::bit_cast<std::uint64_t>(before) + 8191, 1));
    sbrk(-8192);
    EXPECT_FALSE(is_in_heap(std::bit_cast<std::uint64_t>(before) + 8191, 1));
  }
}

}  // namespace
}  // namespace weft::os
