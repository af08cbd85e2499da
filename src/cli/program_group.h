#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace weft::cli {

/// A program to start on a simulated host.
struct Program {
  std::string host;
  std::vector<std::string> command;
};

/// Starts the programs one after the other: each once those before it listen on a TCP port, or by
/// RDMA-CM on `fabric` (or after `delay_seconds`, if that is not negative). A single program has
/// the terminal for itself; several have their output labelled by host, line by line. Ends when the
/// last one ends, and ends the others with it. Returns the last one's exit status (128 + signal
/// when it was killed).
[[nodiscard]] int run_programs(const std::string& fabric, std::vector<Program> programs,
                               double delay_seconds);

/// Whether a child has ended; then it is reaped.
[[nodiscard]] bool has_ended(pid_t pid);

/// Waits, within a bound, for a child to end; kills it then.
void wait_for_end(pid_t pid);

}  // namespace weft::cli
