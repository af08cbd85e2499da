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

/// Starts programs one after another, each when the earlier ones listen on a TCP port or by RDMA-CM
/// on `fabric`, or after `delay_seconds` if not negative. A single program uses the terminal
/// directly; the output of several is prefixed by the host, line by line. When the last program
/// ends, the others are terminated. Returns its exit status (128 + signal if it was killed).
[[nodiscard]] int run_programs(const std::string& fabric, std::vector<Program> programs,
                               double delay_seconds);

/// Returns true, and reaps the child, if it has ended.
[[nodiscard]] bool has_ended(pid_t pid);

/// Waits for a child to end; kills it after a time limit.
void wait_for_end(pid_t pid);

}  // namespace weft::cli
