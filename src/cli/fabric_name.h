#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace weft::cli {

/// `--name` of a command that deals with a fabric that is up; empty unless told. connect_to() and
/// ask() take it as it is; whoever says it or hands it on asks fabric_meant() first.
std::shared_ptr<std::string> add_fabric_name(CLI::App& command);

/// The fabric that a command means: what `--name` says, else $WEFT_FABRIC, else `default` if it is
/// up, else the only one that is. Refuses to choose among several. A name that was said need not be
/// up.
[[nodiscard]] Result<std::string> fabric_meant(const std::string& named);

}  // namespace weft::cli
