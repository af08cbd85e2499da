#pragma once

// `weft srp load`: reads or writes a unit by one session or many of this one process, without NBD
// between, and tells what came of it: for measurements, and to see a target under load.

#include <CLI/CLI.hpp>
#include <string>

#include "programs/load/load_options.h"

namespace weft::programs::srp {

struct LoadCommand {
  std::string where{};
  std::string device{};  ///< as libibverbs has it; empty: the first
  load::LoadOptions options{};
};

/// Adds the command; the options outlive the parsing.
CLI::App& add_load_command(CLI::App& app, LoadCommand& command);
/// The exit status: kFailed where a session or a command has failed.
[[nodiscard]] int run_load(const LoadCommand& command);

}  // namespace weft::programs::srp
