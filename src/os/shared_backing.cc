#include "os/shared_backing.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cstdio>
#include <fstream>
#include <string>

#include "os/process_pages.h"
#include "os/unique_fd.h"

namespace weft::os {
namespace {

struct MappedRange {
  std::uint64_t first{};
  std::uint64_t end{};
  bool is_writable{};
  bool is_shared{};
  bool is_deleted{};      // its file has no name any more, or never had one
  SharedBacking backing;  // of its first byte

  [[nodiscard]] bool has(std::uint64_t address, std::uint64_t length) const {
    return address >= first && address < end && length <= end - address;
  }
  /// What follows in memory follows in the file as well.
  [[nodiscard]] bool goes_on_with(const MappedRange& next) const {
    return end == next.first && is_shared && next.is_shared && is_writable == next.is_writable &&
           backing.device == next.backing.device && backing.inode == next.backing.inode &&
           backing.offset + (end - first) == next.backing.offset;
  }
};

/// proc_pid_maps(5): `first-end rwxs offset major:minor inode path`.
[[nodiscard]] std::optional<MappedRange> read_range(const std::string& line) {
  unsigned long long first{};
  unsigned long long end{};
  unsigned long long offset{};
  unsigned long long inode{};
  unsigned major{};
  unsigned minor{};
  char access[5]{};
  if (std::sscanf(line.c_str(), "%llx-%llx %4s %llx %x:%x %llu", &first, &end, access, &offset,
                  &major, &minor, &inode) != 7 ||
      end <= first) {
    return std::nullopt;
  }
  return MappedRange{
      .first = first,
      .end = end,
      .is_writable = access[1] == 'w',
      .is_shared = access[3] == 's' && inode != 0,
      .is_deleted = line.ends_with(" (deleted)"),
      .backing = {.device = std::uint64_t{major} << 32 | minor, .inode = inode, .offset = offset}
  };
}

/// Visits ranges, joined where they go on, until `visit` says true.
template <class Visit>
void for_each_range(std::istream& maps, Visit visit) {
  std::optional<MappedRange> joined;
  for (std::string line; std::getline(maps, line);) {
    const auto next = read_range(line);
    if (!next) {
      continue;
    }
    if (joined && joined->goes_on_with(*next)) {
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
    if (!range.is_shared || !range.has(address, length)) {
      return false;
    }
    found = range.backing;
    found->offset += address - range.first;
    return true;
  });
  return found;
}

bool is_file_mapping_in(std::istream& maps, std::uint64_t address, std::uint64_t length) {
  bool found = false;
  for_each_range(maps, [&](const MappedRange& range) {
    found = range.is_shared && !range.is_deleted && range.has(address, length);
    return found;
  });
  return found;
}

std::uint64_t find_mapping_in(std::istream& maps, const SharedBacking& backing,
                              std::uint64_t length, bool for_writing) {
  std::uint64_t found = 0;
  for_each_range(maps, [&](const MappedRange& range) {
    const std::uint64_t bytes = range.end - range.first;
    if (!range.is_shared || (for_writing && !range.is_writable) ||
        range.backing.device != backing.device || range.backing.inode != backing.inode ||
        backing.offset < range.backing.offset || backing.offset - range.backing.offset >= bytes ||
        length > bytes - (backing.offset - range.backing.offset)) {
      return false;
    }
    found = range.first + (backing.offset - range.backing.offset);
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
