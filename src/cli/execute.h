#pragma once

#include <string>
#include <vector>

namespace weft::cli {

/// Becomes the program, which is looked for in PATH if its name has no slash. Returns only if it
/// cannot, after it has said so on standard error: the exit status that a shell has then (POSIX.1
/// XCU §2.8.2), 127 if there is no such program and 126 if there is one that cannot be executed.
[[nodiscard]] int execute(std::vector<std::string> command);

}  // namespace weft::cli
