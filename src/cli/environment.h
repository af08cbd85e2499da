#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace weft::cli {

/// Library path of the drop-in libraries: next to the command in its build tree, or installed under
/// lib/weft.
[[nodiscard]] Result<std::string> drop_in_path();

/// Sets this process's environment for programs on `host` (or switch) of `fabric`: library path,
/// WEFT_RUN, WEFT_FABRIC and WEFT_HOST.
[[nodiscard]] Result<void> enter(const std::string& fabric, const std::string& host);

}  // namespace weft::cli
