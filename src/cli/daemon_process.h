#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/result.h"
#include "fabric/topology.h"
#include "os/unique_fd.h"

namespace weft::cli {

/// A daemon running as a child process. With a lifeline, the fabric is shut down when it is closed.
struct DaemonProcess {
  pid_t pid{};
  os::UniqueFd lifeline;
};

/// Parameters of a daemon, from the command line.
struct DaemonStart {
  std::string name;
  bool is_bound{};  // shut down when this process ends
  bool has_subnet_manager{true};
  std::uint8_t sm_priority{};
  std::string sm_port{};
  std::string ibsim{};  // socket name prefix, or 127.0.0.1:PORT; empty: disabled
  bool is_isolating{};  // programs place nothing into each other's memory
};

/// Starts the daemon of a fabric and waits until it accepts connections.
[[nodiscard]] Result<DaemonProcess> start_daemon(const DaemonStart& start,
                                                 const fabric::Topology& topology);

}  // namespace weft::cli
