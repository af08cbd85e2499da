#pragma once

#include <sys/types.h>

#include <string>

#include "base/result.h"
#include "fabric/topology.h"
#include "host/unique_fd.h"

namespace weft::cli {

/// A daemon in a process of its own. With a lifeline the fabric ends when it is closed.
struct DaemonProcess {
  pid_t pid{};
  host::UniqueFd lifeline;
};

/// Starts the daemon of a fabric and waits until it serves. `is_bound` ties it to this process's
/// life.
[[nodiscard]] Result<DaemonProcess> start_daemon(const std::string& name,
                                                 const fabric::Topology& topology, bool is_bound);

}  // namespace weft::cli
