#include "os/mapped_range.h"

#include <sys/mman.h>

#include <cstdio>

namespace weft::os {

int MappedRange::protection() const {
  return (access[0] == 'r' ? PROT_READ : 0) | (is_writable() ? PROT_WRITE : 0) |
         (access[2] == 'x' ? PROT_EXEC : 0);
}

std::optional<MappedRange> read_mapped_range(const std::string& line) {
  unsigned long long first{};
  unsigned long long end{};
  unsigned long long offset{};
  unsigned long long inode{};
  unsigned major{};
  unsigned minor{};
  char access[5]{};
  int path_at = 0;
  if (std::sscanf(line.c_str(), "%llx-%llx %4s %llx %x:%x %llu %n", &first, &end, access, &offset,
                  &major, &minor, &inode, &path_at) != 7 ||
      end <= first || access[3] == '\0') {
    return std::nullopt;
  }
  return MappedRange{.first = first,
                     .end = end,
                     .access = access,
                     .offset = offset,
                     .device = std::uint64_t{major} << 32 | minor,
                     .inode = inode,
                     .path = line.substr(static_cast<std::size_t>(path_at))};
}

}  // namespace weft::os
