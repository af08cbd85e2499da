#pragma once

// The command `target` of weft-srp: options, configuration, service.

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "programs/iscsi/configuration.h"

namespace weft::programs::srp {

struct TargetOptions {
  std::vector<std::string> portals{};
  std::string name{};
  std::vector<std::string> units{};
  std::vector<std::string> allowed{};
  std::string configuration{};
  std::vector<std::string> devices{};
  bool no_srq{};
  bool no_wait{};
};

/// Adds the command; `options` outlives the parsing.
CLI::App& add_target_command(CLI::App& app, TargetOptions& options);

/// Options and file together.
[[nodiscard]] Result<iscsi::Configuration> configuration_of(const TargetOptions& options);

/// Serves until SIGTERM or SIGINT. Returns the exit status.
[[nodiscard]] int run_target(const TargetOptions& options);

}  // namespace weft::programs::srp
