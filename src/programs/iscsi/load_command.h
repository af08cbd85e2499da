#pragma once

// `weft iscsi load` and `weft iser load`: read or write a unit by one session or many of this one
// process, without NBD between, and tell what came of it: for measurements, and to see a target
// under load.

#include <CLI/CLI.hpp>

#include "programs/iscsi/attach_command.h"
#include "programs/load/load_options.h"

namespace weft::programs::iscsi {

struct LoadCommand {
  AttachOptions unit{};  ///< of which what a session needs
  load::LoadOptions load{};
};

/// Adds the command; the options outlive the parsing.
CLI::App& add_load_command(CLI::App& app, LoadCommand& command);
/// The exit status: kFailed where a session or a command has failed.
[[nodiscard]] int run_load(const LoadCommand& command);

}  // namespace weft::programs::iscsi
