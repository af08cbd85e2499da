#pragma once

// The command `attach` of weft-srp, which runs nbdkit with our plugin.

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "programs/srp/session_path.h"

namespace weft::programs::srp {

struct AttachOptions {
  PathOptions path{};
  std::vector<std::string> where{};  ///< URLs: the paths to the unit, the preferred one first
  std::string socket{};              ///< of NBD
  bool read_only{};
};

/// Adds the command; the options outlive the parsing.
CLI::App& add_attach_command(CLI::App& app, AttachOptions& options);

/// An exit status, or this process is replaced by nbdkit.
[[nodiscard]] int run_attach(const AttachOptions& options);

}  // namespace weft::programs::srp
