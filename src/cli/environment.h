#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace weft::cli {

/// Library path of the drop-in libraries: next to the command in its build tree, or installed under
/// lib/weft.
[[nodiscard]] Result<std::string> drop_in_path();

/// Sets this process's environment for programs on `host` (or switch) of `fabric`: library path,
/// the preloaded library that serves RDMA netlink (behind what LD_PRELOAD has), system programs
/// behind what PATH has, WEFT_RUN, WEFT_FABRIC and WEFT_HOST.
[[nodiscard]] Result<void> enter(const std::string& fabric, const std::string& host);

/// For a program in the host's namespaces, whose /sys is the host's: libibverbs and others that ask
/// it look there.
void show_own_sys();

}  // namespace weft::cli
