#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace weft::cli {

/// Colours only where a person looks: a terminal, and NO_COLOR is not set.
[[nodiscard]] bool wants_colour(int fd);
[[nodiscard]] std::string coloured(std::string_view text, unsigned hue, int fd);

/// Prints `weft: reason` on standard error; returns the exit status for it.
int complain(const Error& error);

}  // namespace weft::cli
