#include "os/heap.h"

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>

namespace weft::os {
namespace {

struct Setting {
  int name;
  int value;
};
constexpr std::array kSettings{
    Setting{M_MMAP_MAX,       0                              },
    Setting{M_TRIM_THRESHOLD, std::numeric_limits<int>::max()},
};

constexpr std::size_t kTriedBytes = 4U << 20;  // more than any threshold for pieces of their own
constexpr std::uint64_t kPageBytes = 4096;     // a multiple of it suits, too

/// Whether this page is of a mapping.
[[nodiscard]] bool is_mapped(std::uint64_t page) {
  unsigned char resident = 0;
  return mincore(std::bit_cast<void*>(page), kPageBytes, &resident) == 0;
}

/// The allocator that is there does it: it is asked rather than believed.
[[nodiscard]] bool keeps_what_is_freed() {
  void* const piece = std::malloc(kTriedBytes);
  if (piece == nullptr) {
    return false;
  }
  // Touched, so that the compiler does not leave both calls out.
  volatile std::byte* const middle = static_cast<std::byte*>(piece) + kTriedBytes / 2;
  *middle = std::byte{1};
  // Read again, since the address of what is freed is what is asked about.
  const volatile std::uint64_t page =
      std::bit_cast<std::uint64_t>(middle) / kPageBytes * kPageBytes;
  const auto heap = heap_range();
  std::free(piece);
  return heap && heap->begin <= page && page < heap->end && is_mapped(page);
}

}  // namespace

void use_one_heap() { mallopt(M_ARENA_MAX, 1); }

Result<void> keep_freed_memory_mapped() {
  bool are_set = true;
  for (const auto& [name, value] : kSettings) {
    are_set = mallopt(name, value) == 1 && are_set;
  }
  if (!are_set || !keeps_what_is_freed()) {
    return fail(ErrorCode::NotSupported,
                "memory that is freed does not stay mapped with this program's allocator: run it "
                "without a sanitizer, and without a malloc that is preloaded");
  }
  return {};
}

std::optional<AddressRange> heap_range() {
  std::optional<AddressRange> whole;
  std::ifstream maps{"/proc/self/maps"};
  for (std::string line; std::getline(maps, line);) {
    if (!line.ends_with("[heap]")) {
      continue;
    }
    AddressRange found;
    const char* const end = line.data() + line.size();
    const auto first = std::from_chars(line.data(), end, found.begin, 16);
    if (first.ec == std::errc{} && first.ptr != end && *first.ptr == '-' &&
        std::from_chars(first.ptr + 1, end, found.end, 16).ec == std::errc{}) {
      // What is added after a fork is a mapping of its own.
      whole = {.begin = whole ? whole->begin : found.begin, .end = found.end};
    }
  }
  return whole;
}

/// It begins where it began, and ends at the break.
bool is_in_heap(std::uint64_t address, std::uint64_t length) {
  static std::atomic<std::uint64_t> known{0};
  std::uint64_t begin = known.load(std::memory_order_relaxed);
  if (begin == 0) {
    const auto range = heap_range();
    if (!range) {
      return false;
    }
    begin = range->begin;
    known.store(begin, std::memory_order_relaxed);
  }
  const auto end = std::bit_cast<std::uint64_t>(sbrk(0));
  return begin <= address && address <= end && length <= end - address;
}

}  // namespace weft::os
