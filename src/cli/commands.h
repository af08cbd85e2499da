#pragma once

// The subcommands of `weft`. Each registers itself and its options. Exit status: 0 success, 1
// failure (with the reason on standard error), 2 wrong usage; `exec`, `shell` and `run` return the
// program's own.

#include <CLI/CLI.hpp>

namespace weft::cli {

inline constexpr int kFailed = 1;
inline constexpr int kWrongUsage = 2;

/// Exit status, set by the selected subcommand.
struct Outcome {
  int status{};
};

void add_up(CLI::App& app, Outcome& outcome);
void add_down(CLI::App& app, Outcome& outcome);
void add_status(CLI::App& app, Outcome& outcome);
void add_exec(CLI::App& app, Outcome& outcome);
void add_shell(CLI::App& app, Outcome& outcome);
void add_run(CLI::App& app, Outcome& outcome);
void add_topology(CLI::App& app, Outcome& outcome);
void add_fault(CLI::App& app, Outcome& outcome);
void add_link(CLI::App& app, Outcome& outcome);
void add_port(CLI::App& app, Outcome& outcome);
void add_node(CLI::App& app, Outcome& outcome);
void add_vf(CLI::App& app, Outcome& outcome);
void add_explain(CLI::App& app, Outcome& outcome);
void add_capture(CLI::App& app, Outcome& outcome);
void add_decode(CLI::App& app, Outcome& outcome);

}  // namespace weft::cli
