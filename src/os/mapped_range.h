#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace weft::os {

/// A line of /proc/self/maps, and the first of a mapping's lines in smaps (proc_pid_maps(5)).
struct MappedRange {
  std::uint64_t first{};
  std::uint64_t end{};
  std::string access;      ///< `rwxp`, `s` at its end if it is shared, `-` for what is not allowed
  std::uint64_t offset{};  ///< of `first` in the file
  std::uint64_t device{};  ///< major number in the upper half
  std::uint64_t inode{};   ///< 0: no file
  std::string path;        ///< or a name in brackets

  [[nodiscard]] bool is_writable() const { return access[1] == 'w'; }
  [[nodiscard]] bool is_private() const { return access[3] == 'p'; }
  /// As mmap(2) and mprotect(2) take it.
  [[nodiscard]] int protection() const;
};

/// `first-end rwxp offset major:minor inode path`; nothing: it is no such line.
[[nodiscard]] std::optional<MappedRange> read_mapped_range(const std::string& line);

}  // namespace weft::os
