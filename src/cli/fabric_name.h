#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace weft::cli {

/// Adds option `--name`; its value is empty if the option is not given. connect_to() and ask()
/// accept the value as it is; to print or pass on the name, resolve it by resolve_fabric_name().
std::shared_ptr<std::string> add_fabric_name(CLI::App& command);

/// The fabric to use: the name given by `--name`, else $WEFT_FABRIC, else `default` if it is
/// running, else the only running one; fails if there are several. A name that was given need not
/// be running.
[[nodiscard]] Result<std::string> resolve_fabric_name(const std::string& named);

}  // namespace weft::cli
