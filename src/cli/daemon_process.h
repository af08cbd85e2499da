#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/result.h"
#include "fabric/topology.h"
#include "os/unique_fd.h"

namespace weft::cli {

/// A daemon in a process of its own. With a lifeline the fabric ends when it is closed.
struct DaemonProcess {
  pid_t pid{};
  os::UniqueFd lifeline;
};

struct DaemonStart {
  std::string name;
  bool is_bound{};  // to the life of this process
  bool has_subnet_manager{true};
  std::uint8_t sm_priority{};
  std::string sm_port{};
  std::string ibsim{};  // name of its sockets, or 127.0.0.1:PORT; empty: none
};

/// Starts the daemon of a fabric and waits until it serves.
[[nodiscard]] Result<DaemonProcess> start_daemon(const DaemonStart& start,
                                                 const fabric::Topology& topology);

}  // namespace weft::cli
