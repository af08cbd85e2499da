#pragma once

// Page faults and changes of this process's memory as its kernel tells them (userfaultfd(2)).

#include <cstdint>
#include <optional>
#include <utility>

#include "base/result.h"
#include "os/unique_fd.h"

namespace weft::os {

/// Whose accesses to pages that are not there are told.
enum class FaultsOf : std::uint8_t {
  Programs,  ///< the process's own instructions (UFFD_USER_MODE_ONLY), which any user may ask for.
             ///< A system call that meets such a page fails with EFAULT.
  All,       ///< system calls, too: with CAP_SYS_PTRACE, or where vm.unprivileged_userfaultfd is 1
};

/// What has happened to pages of [first, last).
struct MemoryMessage {
  enum class Kind : std::uint8_t {
    Fault,     ///< a thread waits for the one page at `first`
    Removed,   ///< its content is about to go (madvise)
    Unmapped,  ///< it is no memory any more
    Moved,     ///< it is at `moved_to` now (mremap)
  };
  Kind kind{};
  std::uint64_t first{};
  std::uint64_t last{};
  std::uint64_t moved_to{};
};

/// Whether pages could be filled.
enum class FillOutcome : std::uint8_t {
  Filled,
  Changing,    ///< a change of memory is to be read first
  NotWatched,  ///< some of them are not
};

/// A descriptor that tells of faults and changes of the ranges that it watches. Who changes memory
/// is kept waiting until the message was read, and no page is filled meanwhile: somebody reads
/// always, and allocates no memory meanwhile: it may be its own change that waits. Any thread.
class UserFaults {
 public:
  /// PermissionDenied: not for this user; NotSupported: not by this kernel. The reason says what
  /// would help.
  [[nodiscard]] static Result<UserFaults> open(FaultsOf whose);

  /// Readable when next() has something.
  [[nodiscard]] int fd() const { return fd_.get(); }

  /// From now on tells of these pages, which are whole ones; again: nothing. Memory without a name
  /// and shared memory can be watched; NotSupported: files, huge pages; BadAddress: there is none.
  Result<void> watch(std::uint64_t start, std::uint64_t bytes) const;
  /// No more; threads that wait for one go on.
  void unwatch(std::uint64_t start, std::uint64_t bytes) const;

  /// Fills those watched pages with zeros that are not there, and wakes who waits for them.
  [[nodiscard]] FillOutcome fill(std::uint64_t start, std::uint64_t bytes) const;
  /// Lets threads that wait for these pages try again.
  void wake(std::uint64_t start, std::uint64_t bytes) const;

  /// The next message, if there is one. Does not wait.
  [[nodiscard]] std::optional<MemoryMessage> next() const;

 private:
  explicit UserFaults(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace weft::os
