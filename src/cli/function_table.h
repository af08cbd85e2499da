#pragma once

// What virtual functions have, as tables: `weft vf show`.

#include <string>

namespace weft::cli {

/// Prints the function of host `name`, or all if it is empty. Returns the exit status.
int show_functions(const std::string& fabric, const std::string& name, bool as_json);

}  // namespace weft::cli
