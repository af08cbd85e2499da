#pragma once

#include <string>
#include <vector>

namespace weft::cli {

/// Replaces this process by a program, which is searched in PATH if its name contains no slash.
/// Returns only on failure, after printing the reason, with the exit status of a shell (POSIX.1 XCU
/// §2.8.2): 127 if the program is not found, 126 if it cannot be executed.
[[nodiscard]] int execute(std::vector<std::string> command);

}  // namespace weft::cli
