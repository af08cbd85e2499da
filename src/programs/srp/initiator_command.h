#pragma once

// `weft srp initiator`: what the module ib_srp is to a machine, to a host as a namespace. Each port
// gets its add_target in /sys/class/infiniband_srp, and what srp_daemon writes there logs in.

#include <CLI/CLI.hpp>
#include <string>

#include "programs/srp/initiator_service.h"

namespace weft::programs::srp {

struct InitiatorCommand {
  std::string host{};    ///< empty: the one that this runs on
  std::string fabric{};  ///< of `host`; empty: the usual one
  InitiatorOptions options{};
};

/// Adds the command; the options outlive the parsing.
CLI::App& add_initiator_command(CLI::App& app, InitiatorCommand& command);
/// Returns the exit status, after SIGTERM or SIGINT.
[[nodiscard]] int run_initiator(const InitiatorCommand& command);

}  // namespace weft::programs::srp
