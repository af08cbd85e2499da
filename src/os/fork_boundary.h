#pragma once

namespace weft::os {

/// Marks this process: its children of fork() are told apart from it from now on
/// (docs/ARCHITECTURE.md, decision 9). A child that calls it is a process of its own again. Any
/// thread.
void mark_fork_boundary();

/// True in a child of fork() whose parent had called mark_fork_boundary(), until it does so itself.
/// Costs one load; any thread.
[[nodiscard]] bool is_child_of_fork();

}  // namespace weft::os
