#include "os/shared_backing.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <fstream>
#include <string>

#include "os/mapped_range.h"
#include "os/process_pages.h"
#include "os/unique_fd.h"

namespace weft::os {
namespace {

[[nodiscard]] bool is_shared(const MappedRange& range) {
  return !range.is_private() && range.inode != 0;
}
[[nodiscard]] SharedBacking backing_of(const MappedRange& range) {
  return {.device = range.device, .inode = range.inode, .offset = range.offset};
}
[[nodiscard]] bool has(const MappedRange& range, std::uint64_t address, std::uint64_t length) {
  return address >= range.first && address < range.end && length <= range.end - address;
}
/// What follows in memory follows in the file as well.
[[nodiscard]] bool goes_on_with(const MappedRange& range, const MappedRange& next) {
  return range.end == next.first && is_shared(range) && is_shared(next) &&
         range.is_writable() == next.is_writable() && range.device == next.device &&
         range.inode == next.inode && range.offset + (range.end - range.first) == next.offset;
}

/// Visits ranges, joined where they go on, until `visit` says true.
template <class Visit>
void for_each_range(std::istream& maps, Visit visit) {
  std::optional<MappedRange> joined;
  for (std::string line; std::getline(maps, line);) {
    const auto next = read_mapped_range(line);
    if (!next) {
      continue;
    }
    if (joined && goes_on_with(*joined, *next)) {
      joined->end = next->end;
      continue;
    }
    if (joined && visit(*joined)) {
      return;
    }
    joined = next;
  }
  if (joined) {
    static_cast<void>(visit(*joined));
  }
}

}  // namespace

std::optional<SharedBacking> shared_backing_in(std::istream& maps, std::uint64_t address,
                                               std::uint64_t length) {
  std::optional<SharedBacking> found;
  for_each_range(maps, [&](const MappedRange& range) {
    if (!is_shared(range) || !has(range, address, length)) {
      return false;
    }
    found = backing_of(range);
    found->offset += address - range.first;
    return true;
  });
  return found;
}

bool is_file_mapping_in(std::istream& maps, std::uint64_t address, std::uint64_t length) {
  bool found = false;
  for_each_range(maps, [&](const MappedRange& range) {
    found = is_shared(range) && !range.path.ends_with(" (deleted)") && has(range, address, length);
    return found;
  });
  return found;
}

std::uint64_t find_mapping_in(std::istream& maps, const SharedBacking& backing,
                              std::uint64_t length, bool for_writing) {
  std::uint64_t found = 0;
  for_each_range(maps, [&](const MappedRange& range) {
    const std::uint64_t bytes = range.end - range.first;
    if (!is_shared(range) || (for_writing && !range.is_writable()) ||
        range.device != backing.device || range.inode != backing.inode ||
        backing.offset < range.offset || backing.offset - range.offset >= bytes ||
        length > bytes - (backing.offset - range.offset)) {
      return false;
    }
    found = range.first + (backing.offset - range.offset);
    return true;
  });
  return found;
}

std::optional<SharedBacking> shared_backing_of(std::span<const std::byte> range) {
  std::ifstream maps{"/proc/self/maps"};
  return shared_backing_in(maps, std::bit_cast<std::uint64_t>(range.data()), range.size());
}

bool may_be_shared(std::span<const std::byte> range) {
  const auto page = std::bit_cast<std::uintptr_t>(range.data()) / page_size();
  madvise(std::bit_cast<void*>(page * page_size()), page_size(), MADV_POPULATE_READ);
  const UniqueFd pagemap{open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)};
  std::uint64_t entry = 0;
  constexpr std::uint64_t kFilePage = std::uint64_t{1} << 61;  // pagemap.rst: or shared, anonymous
  return !pagemap ||
         pread(pagemap.get(), &entry, sizeof entry, static_cast<off_t>(page * sizeof entry)) !=
             static_cast<ssize_t>(sizeof entry) ||
         (entry & kFilePage) != 0;
}

bool is_file_mapping(std::span<const std::byte> range) {
  std::ifstream maps{"/proc/self/maps"};
  return is_file_mapping_in(maps, std::bit_cast<std::uint64_t>(range.data()), range.size());
}

std::byte* find_mapping(const SharedBacking& backing, std::uint64_t length, bool for_writing) {
  std::ifstream maps{"/proc/self/maps"};
  return std::bit_cast<std::byte*>(find_mapping_in(maps, backing, length, for_writing));
}

}  // namespace weft::os
