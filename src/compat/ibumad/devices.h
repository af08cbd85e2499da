#pragma once

#include <string>

#include "base/result.h"

namespace weft::compat {

/// A port of a device of this node.
struct DevicePort {
  std::string device;
  int port{};
};

/// The port that a program means: `name` may be null for any device, `port` 0 for the best port,
/// which is an active one, else one whose link is up, else one that is not disabled. Of a switch it
/// is always port 0.
[[nodiscard]] Result<DevicePort> choose_port(const char* name, int port);

}  // namespace weft::compat
