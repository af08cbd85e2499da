#pragma once

#include <string>

#include "base/result.h"
#include "cli/link_options.h"
#include "fabric/topology.h"
#include "host/control_socket.h"
#include "uabi/messages.h"

namespace weft::cli {

/// Removes leftovers of dead daemons from the run directory and reports them on standard error.
/// Commands that use fabrics call it first.
void clear_dead_fabrics();

/// Connects to the daemon of a running fabric. `named` is resolved by resolve_fabric_name(), here
/// and below.
[[nodiscard]] Result<host::ControlSocket> connect_to(const std::string& named);

/// Returns the daemon's answer to a query, as JSON.
[[nodiscard]] Result<std::string> ask(const std::string& named, uabi::QueryKind kind);

/// Returns the daemon's answer to any message that is answered by Text.
[[nodiscard]] Result<std::string> ask(const std::string& named, const uabi::Message& message);

/// Builds a topology from a generator's name and parameters, or a TOML or net file, and the link
/// options of the command line.
[[nodiscard]] Result<fabric::Topology> topology_from(const std::vector<std::string>& words,
                                                     const LinkOptions& links);

/// How long the command waits for a daemon; policy.
inline constexpr Duration kWaitLimit = Duration::seconds(10);

}  // namespace weft::cli
