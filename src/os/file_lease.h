#pragma once

// Write leases on files (fcntl(2), F_SETLEASE): while the keeper holds one, whoever opens the file
// waits in open() until the keeper has released it. A keeper that writes the content before it
// releases makes a file that is true whenever it is opened, as the kernel's own in /sys are. An
// open with O_NONBLOCK does not wait, it fails with EAGAIN; /proc/sys/fs/lease-break-time (45 s)
// bounds how long the others wait for a keeper that has stopped.

#include <vector>

#include "base/result.h"
#include "os/unique_fd.h"

namespace weft::os {

/// Takes leases and hears who waits for their release. One thread: the one that creates it, in
/// which the two signals that tell of openers are blocked from then on.
class LeaseKeeper {
 public:
  [[nodiscard]] static Result<LeaseKeeper> create();

  /// Readable while take_breaks() has something to say.
  [[nodiscard]] int fd() const { return signals_.get(); }

  /// `file` must be open for reading and writing, and be this user's. TryAgain: others have it open
  /// now. NotSupported: its file system, or this kernel, has no leases.
  [[nodiscard]] Result<void> take(int file) const;
  /// Lets those continue who wait for the file; nothing happens without a lease.
  static void release(int file);
  [[nodiscard]] static bool is_breaking(int file);

  /// Openers that wait, by their file's descriptor; never waits itself.
  struct Breaks {
    std::vector<int> files;
    /// The kernel could not queue every signal: each file must be looked at with is_breaking().
    bool is_incomplete{};
  };
  [[nodiscard]] Breaks take_breaks() const;

 private:
  explicit LeaseKeeper(UniqueFd signals) : signals_(std::move(signals)) {}

  UniqueFd signals_;
};

}  // namespace weft::os
