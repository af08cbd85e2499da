#pragma once

// Where fabrics of this user live: $WEFT_RUN, else $XDG_RUNTIME_DIR/weft, else /tmp/weft-<uid>;
// private to the user (0700, owner checked). A fabric is a directory in it, with the daemon's
// control socket and files that programs read.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "os/unique_fd.h"

namespace weft::os {

inline constexpr std::string_view kDefaultFabric = "default";

/// The run directory, made if it was missing. Refuses one that others own or may enter.
[[nodiscard]] Result<std::string> run_directory();

/// Its path without looking at it.
[[nodiscard]] std::string run_directory_path();

/// Letters, digits, '-', '_', '.'; 1 to 32 characters; does not begin with a dot.
[[nodiscard]] Result<void> check_fabric_name(std::string_view name);

[[nodiscard]] std::string fabric_directory(const std::string& run, std::string_view fabric);
[[nodiscard]] std::string control_path(const std::string& run, std::string_view fabric);
/// A file that the daemon keeps locked (flock) as long as it lives.
[[nodiscard]] std::string lock_path(const std::string& run, std::string_view fabric);

/// Names of all fabrics that have a directory, whether their daemon lives or not.
[[nodiscard]] std::vector<std::string> list_fabrics(const std::string& run);

/// While it is held nobody else makes, clears or removes a fabric's directory.
[[nodiscard]] Result<UniqueFd> lock_run_directory(const std::string& run);

/// Removes what daemons that died left behind, and nothing else that may lie in the run directory.
/// Returns the names of those fabrics.
[[nodiscard]] std::vector<std::string> clear_dead_fabrics(const std::string& run);

/// $WEFT_FABRIC, or the default name.
[[nodiscard]] std::string fabric_of_environment();

}  // namespace weft::os
