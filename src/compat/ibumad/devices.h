#pragma once

#include <string>

#include "base/result.h"

namespace weft::compat {

/// A port of a device of this node.
struct DevicePort {
  std::string device;
  int port{};
};

/// Selects a port. A null `name` means any device, `port` 0 the best port: an active one, else one
/// whose link is up, else one that is not disabled. On a switch it is always port 0.
[[nodiscard]] Result<DevicePort> choose_port(const char* name, int port);

}  // namespace weft::compat
