#include "os/fork_boundary.h"

#include <sys/mman.h>

#include <atomic>
#include <cstddef>

namespace weft::os {
namespace {

/// A page that the kernel empties in children: a forked process sees 0 where its parent wrote 1.
std::atomic<volatile char*> boundary{nullptr};

}  // namespace

void mark_fork_boundary() {
  if (volatile char* const known = boundary.load(std::memory_order_acquire)) {
    *known = 1;  // a child that attached anew is nobody's child any more
    return;
  }
  constexpr std::size_t kPage = 4'096;
  void* const page =
      mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED || madvise(page, kPage, MADV_WIPEONFORK) != 0) {
    return;  // an old kernel: children are not told apart
  }
  *static_cast<char*>(page) = 1;
  boundary.store(static_cast<char*>(page), std::memory_order_release);
}

bool is_child_of_fork() {
  const volatile char* const page = boundary.load(std::memory_order_acquire);
  return page != nullptr && *page == 0;
}

}  // namespace weft::os
