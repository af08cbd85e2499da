#include "host/placement/placement_guard.h"

#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <bit>
#include <utility>

namespace weft::host {
namespace {

[[nodiscard]] std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

/// An address that another program, which may get this process's number after it, has nothing at:
/// anywhere in the lower 46 bits of addresses.
[[nodiscard]] void* anywhere() {
  std::uint64_t random = 0;
  if (getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random) {
    return nullptr;
  }
  constexpr std::uint64_t kLowest = std::uint64_t{1} << 40;
  constexpr std::uint64_t kRange = std::uint64_t{1} << 45;
  return std::bit_cast<void*>((kLowest + random % kRange) / page_bytes() * page_bytes());
}

}  // namespace

bool PlacementGuard::reserve() {
  void* const place = mmap(anywhere(), kPages * page_bytes(), PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) {
    return false;
  }
  // Of no use to a child, whose memory no peer reaches.
  madvise(place, kPages * page_bytes(), MADV_DONTFORK);
  pages_ = static_cast<std::byte*>(place);
  used_ = 0;
  return true;
}

std::uint64_t PlacementGuard::address() {
  if (open_ == nullptr) {
    if (used_ == kPages && !reserve()) {
      return 0;
    }
    std::byte* const page = pages_ + used_ * page_bytes();
    if (mprotect(page, page_bytes(), PROT_READ | PROT_WRITE) != 0) {
      return 0;
    }
    ++used_;
    open_ = page;
  }
  return std::bit_cast<std::uint64_t>(open_);
}

void PlacementGuard::close() {
  if (std::byte* const page = std::exchange(open_, nullptr)) {
    madvise(page, page_bytes(), MADV_DONTNEED);
    mprotect(page, page_bytes(), PROT_NONE);
  }
}

}  // namespace weft::host
