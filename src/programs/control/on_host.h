#pragma once

// Running a program of Weft again, on a host of a fabric as a namespace.

#include <string>
#include <vector>

namespace weft::programs {

/// Replaces this process by `weft exec --ns HOST -- THIS PROGRAM ARGUMENTS`, on the fabric with
/// that name, or the one that the environment names if it is empty. Returns only on failure, after
/// printing the reason, with a shell's exit status.
[[nodiscard]] int run_on_host(const std::string& host, const std::string& fabric,
                              std::vector<std::string> arguments);

/// The words of a command line without the choice of host and fabric (--host, --name), for the
/// program that runs there.
[[nodiscard]] std::vector<std::string> without_host(int count, char** arguments);

/// Whether this process is on a host (WEFT_HOST).
[[nodiscard]] bool is_on_host();
/// What tells this host from all others of the machine; empty if this process is on none.
[[nodiscard]] std::string host_key();

}  // namespace weft::programs
