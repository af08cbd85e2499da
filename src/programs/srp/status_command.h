#pragma once

// The command `status` of weft-srp: what the targets and the attached units of a host say.

#include <CLI/CLI.hpp>
#include <string>

namespace weft::programs::srp {

struct StatusOptions {
  std::string host{};    ///< empty: the one that this runs on
  std::string fabric{};  ///< of `host`; empty: the usual one
  bool is_json{};
};

/// Adds the command; the options outlive the parsing.
CLI::App& add_status_command(CLI::App& app, StatusOptions& options);

/// Asks all processes of this host, and prints what they say. Returns the exit status.
[[nodiscard]] int run_status(const StatusOptions& options);

}  // namespace weft::programs::srp
