#pragma once

#include <string>

#include "base/result.h"

namespace weft::cli {

/// Moves this process into the namespaces of a host, as they are kept by the daemon of `fabric`;
/// makes those that are missing. PermissionDenied: this machine forbids them, and the reason says
/// what would allow them.
[[nodiscard]] Result<void> enter_namespaces(const std::string& fabric, const std::string& host);

/// Says on standard error which processes are left over in namespaces of an earlier fabric of that
/// name, whose daemon died.
void report_left_processes(const std::string& fabric);

/// Ends such processes, as the daemon's own end does, within seconds. Returns what was ended, in
/// words; empty: there were none.
[[nodiscard]] std::string end_left_processes(const std::string& fabric);

}  // namespace weft::cli
