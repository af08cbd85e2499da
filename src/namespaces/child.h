#pragma once

// Work in a process of its own, for what changes the process that does it for good (namespaces,
// mounts). The child runs an ordinary function, hands descriptors back, and ends.

#include <functional>
#include <vector>

#include "base/result.h"
#include "os/unique_fd.h"

namespace weft::namespaces {

/// What the child's work comes to: descriptors for its parent, or why not.
using ChildWork = std::function<Result<std::vector<os::UniqueFd>>()>;

/// Runs `work` in a child of this process and waits for its end. The process must have one thread,
/// since the child goes on where fork() left it. Between the child's `pause()` and its return the
/// parent runs `meanwhile` with its PID; both are optional.
struct ChildOptions {
  /// In the child, first: what the parent's `meanwhile` needs done.
  std::function<Result<void>()> before;
  /// In the parent, while the child waits.
  std::function<Result<void>(int pid)> meanwhile;
};

[[nodiscard]] Result<std::vector<os::UniqueFd>> run_in_child(const ChildWork& work,
                                                             const ChildOptions& options = {});

}  // namespace weft::namespaces
