#pragma once

// Memory of one process that another process of the same user maps as well: files in memory that
// nobody can shorten under a mapping.

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/result.h"
#include "os/shared_memory.h"
#include "os/unique_fd.h"

namespace weft::os {

/// A range of a file, as the process that holds it open names it to others.
struct FileRange {
  int descriptor{-1};  ///< of the holder
  std::uint64_t device{};
  std::uint64_t inode{};
  std::uint64_t offset{};
  bool operator==(const FileRange&) const = default;
};

/// A file of this process, and the range of it that is asked for.
struct HeldFile {
  UniqueFd file;
  FileRange range;
};

/// The file that all of `memory` is a shared mapping of, if this process has it open, and others
/// can map it without harm: in memory, with pages of the usual size, and sealed against shrinking,
/// so that no access beyond its end can kill them. Reads /proc/self/maps, and looks at every
/// descriptor.
[[nodiscard]] std::optional<HeldFile> find_held_file(std::span<const std::byte> memory);

/// A range of another process's file, mapped here.
struct PeerMapping {
  Mapping pages;
  std::byte* first{};  ///< byte of the range
};

/// Maps `length` bytes of it. What the other process says is not believed: only a file as
/// find_held_file() wants it is opened and mapped. Not inherited by a child of fork().
[[nodiscard]] Result<PeerMapping> map_peer_file(pid_t process, const FileRange& range,
                                                std::uint64_t length, Protection protection);

}  // namespace weft::os
