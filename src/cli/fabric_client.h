#pragma once

#include <string>

#include "base/result.h"
#include "cli/link_options.h"
#include "fabric/topology.h"
#include "host/control_socket.h"
#include "uabi/messages.h"

namespace weft::cli {

/// Removes what dead daemons left in the run directory, and says so on standard error. Every
/// command that deals with fabrics begins with it.
void clear_dead_fabrics();

/// A connection to the daemon of a fabric that is up. `named` is what fabric_meant() takes, here
/// and below.
[[nodiscard]] Result<host::ControlSocket> connect_to(const std::string& named);

/// The daemon's answer as JSON text.
[[nodiscard]] Result<std::string> ask(const std::string& named, uabi::QueryKind kind);

/// The daemon's answer to any message that it answers with text.
[[nodiscard]] Result<std::string> ask(const std::string& named, const uabi::Message& message);

/// A generator's name with its numbers, or a file, TOML or net; and what the command line says of
/// its links.
[[nodiscard]] Result<fabric::Topology> topology_from(const std::vector<std::string>& words,
                                                     const LinkOptions& links);

/// Policy: how long the command waits for a daemon.
inline constexpr Duration kPatience = Duration::seconds(10);

}  // namespace weft::cli
