#include "kernel/process_memory.h"

#include "os/process_pages.h"

namespace weft::kernel {

std::uint32_t ProcessMemory::page_size() const { return os::page_size(); }

std::uint64_t ProcessMemory::lock_limit() const { return os::lock_limit(); }

Result<void> ProcessMemory::pin(std::uint64_t start, std::uint64_t count, bool for_writing,
                                std::vector<std::uint64_t>& pages) {
  const std::uint64_t size = os::page_size();
  if (auto there = os::populate(start, count * size, for_writing); !there) {
    return there;
  }
  const std::lock_guard lock{mutex_};
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t page = start + i * size;
    if (++pins_[page] != 1) {
      continue;
    }
    if (auto locked = os::lock_pages(page, size); !locked) {
      for (std::uint64_t undone = start; undone <= page; undone += size) {
        release(undone);
      }
      return locked;
    }
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    pages.push_back(start + i * size);
  }
  return {};
}

void ProcessMemory::unpin(std::uint64_t start, std::uint64_t count, bool /*is_dirty*/) {
  const std::lock_guard lock{mutex_};
  for (std::uint64_t i = 0; i < count; ++i) {
    release(start + i * os::page_size());
  }
}

void ProcessMemory::release(std::uint64_t page) {
  const auto found = pins_.find(page);
  if (found != pins_.end() && --found->second == 0) {
    pins_.erase(found);
    os::unlock_pages(page, os::page_size());
  }
}

ProcessMemory& process_memory() {
  static ProcessMemory made;
  return made;
}

}  // namespace weft::kernel
