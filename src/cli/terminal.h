#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace weft::cli {

/// True if the descriptor is a terminal and NO_COLOR is not set.
[[nodiscard]] bool wants_colour(int fd);
[[nodiscard]] std::string coloured(std::string_view text, unsigned color_code, int fd);

/// Prints `weft: reason` on standard error and returns the exit status.
int print_error(const Error& error);

}  // namespace weft::cli
