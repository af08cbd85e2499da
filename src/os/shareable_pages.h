#pragma once

// Private memory of this process that becomes a shared mapping of a file in memory where it lies,
// so that other processes can map it (os/peer_file.h), and private again.

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <istream>
#include <span>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "base/result.h"
#include "os/unique_fd.h"

namespace weft::os {

/// The whole pages around a range of memory, at their addresses and with their content, but in a
/// file of their own. Nothing else shows the difference: the file is longer than any memory, so
/// that a mapping that grows (mremap(2)) finds zeros there, and cannot be shortened. But
/// - what fork(2) copies of private memory, it shares of this: make_private() comes before it;
/// - madvise(2) with MADV_DONTNEED brings zeros to private memory, and changes nothing of this.
///
/// Its pages stay as they are when this is destroyed. Caller serialises.
class ShareablePages {
 public:
  /// Refused, without effect, if the pages are not all plain private memory: of a
  /// file, locked, or with advice of its own; if the calling thread has its stack there; or if the
  /// kernel may be writing to them for this process, by io_uring(7) or io_setup(2). While it is
  /// called no other thread writes to the pages.
  [[nodiscard]] static Result<ShareablePages> make(std::span<const std::byte> memory);

  /// Whether `memory` lies in pages that were made so, all of it.
  [[nodiscard]] bool covers(std::span<const std::byte> memory) const;
  [[nodiscard]] bool overlaps(std::span<const std::byte> memory) const;
  [[nodiscard]] std::size_t size() const { return pages_.size(); }

  /// From now on nobody sees what is written to them, nor do they show what others write to the
  /// file. Other threads may use them meanwhile. What the program has mapped in their place stays.
  void make_private();
  /// As if they had never been shared. While it is called no other thread writes to them.
  void restore();

 private:
  ShareablePages(MutableByteSpan pages, UniqueFd file, ino_t inode)
      : pages_(pages), file_(std::move(file)), inode_(inode) {}
  [[nodiscard]] bool has_file() const;

  MutableByteSpan pages_;
  UniqueFd file_;
  ino_t inode_{};
};

/// Why pages of this process cannot be made shareable, by the list of mappings with their flags
/// that the kernel shows (proc_pid_smaps(5)). Empty: they can. For tests.
[[nodiscard]] std::string why_not_shareable(std::istream& smaps, std::uint64_t first,
                                            std::uint64_t end);

}  // namespace weft::os
