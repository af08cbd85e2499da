#pragma once

// The command `discover` of weft-srp: which targets a port of this host can reach.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

namespace weft::programs::srp {

struct DiscoverOptions {
  std::string host{};    ///< empty: the one that this runs on
  std::string fabric{};  ///< of `host`; empty: the usual one
  std::string device{};
  unsigned port{};  ///< 0: the first that is active
  bool prints_lines{};
  bool is_json{};
  bool watches{};
  unsigned interval_seconds{60};
};

/// Adds the command; the options outlive the parsing.
CLI::App& add_discover_command(CLI::App& app, DiscoverOptions& options);

/// Returns the exit status; with `watches` only when the fabric is gone.
[[nodiscard]] int run_discover(const DiscoverOptions& options);

}  // namespace weft::programs::srp
