#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace weft::cli {

/// Where the drop-in libraries of this Weft lie, as a library path: beside the command in its build
/// tree, or installed under lib/weft.
[[nodiscard]] Result<std::string> drop_in_path();

/// Environment of programs on `host`, which may be a switch, of `fabric`: the library path,
/// WEFT_RUN, WEFT_FABRIC and WEFT_HOST. Changes this process's own environment.
[[nodiscard]] Result<void> enter(const std::string& fabric, const std::string& host);

}  // namespace weft::cli
