#include "host/user_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdint>

namespace weft::host {
namespace {

/// The whole pages around a range; size 0 if no address space can contain the range.
struct Pages {
  void* start{};
  std::size_t size{};
};

[[nodiscard]] std::size_t page_size() {
  static const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

[[nodiscard]] Pages pages_of(std::span<const std::byte> range) {
  const auto first = std::bit_cast<std::uintptr_t>(range.data());
  const std::uintptr_t start = first & ~(page_size() - 1);
  const std::uintptr_t end = first + range.size();
  if (end < first || end + page_size() - 1 < end) {
    return {};
  }
  const std::uintptr_t rounded = (end + page_size() - 1) & ~(page_size() - 1);
  return {.start = std::bit_cast<void*>(start), .size = rounded - start};
}

[[nodiscard]] bool populate(const Pages& pages, int advice) {
  int done = 0;
  do {
    done = madvise(pages.start, pages.size, advice);
  } while (done != 0 && (errno == EINTR || errno == EAGAIN));
  return done == 0;
}

/// A kernel without MADV_POPULATE reports EINVAL, which is also the error for memory without
/// permission.
[[nodiscard]] bool kernel_populates() {
  static const bool known = [] {
    std::array<std::byte, 1> own{};
    return populate(pages_of(own), MADV_POPULATE_READ);
  }();
  return known;
}

}  // namespace

bool is_mapped(std::span<const std::byte> range) {
  constexpr std::size_t kPagesAtOnce = 4'096;
  std::array<unsigned char, kPagesAtOnce> resident;
  const Pages pages = pages_of(range);
  if (pages.size == 0) {
    return range.empty();
  }
  auto* at = static_cast<std::byte*>(pages.start);
  for (std::size_t left = pages.size; left != 0;) {
    const std::size_t part = std::min(left, kPagesAtOnce * page_size());
    if (mincore(at, part, resident.data()) != 0 && errno == ENOMEM) {
      return false;
    }
    at += part;
    left -= part;
  }
  return true;
}

bool ProcessMemory::fault_in(std::span<std::byte> range, bool for_writing) {
  if (!kernel_populates()) {
    return is_mapped(range);
  }
  const Pages pages = pages_of(range);
  if (pages.size == 0) {
    return range.empty();
  }
  return populate(pages, for_writing ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
}

bool ProcessMemory::persist(std::span<std::byte> range) {
  const Pages pages = pages_of(range);
  if (pages.size == 0) {
    return range.empty();
  }
  int done = 0;
  do {
    done = msync(pages.start, pages.size, MS_SYNC);
  } while (done != 0 && errno == EINTR);
  return done == 0;
}

ProcessMemory& process_memory() {
  static auto& memory = *new ProcessMemory;  // never destroyed: our threads outlive main()
  return memory;
}

}  // namespace weft::host
