#pragma once

#include <string>
#include <string_view>

namespace weft::cli {

/// The program that `weft NAME` runs, as git does: weft-NAME beside this program, or else in PATH;
/// empty if there is none, or NAME is no plain word.
[[nodiscard]] std::string program_for(std::string_view name);

}  // namespace weft::cli
