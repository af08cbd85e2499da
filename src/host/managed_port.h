#pragma once

#include <cstdint>
#include <string>

#include "base/identifiers.h"
#include "base/result.h"

namespace weft::host {

struct ProcessOptions;

/// What of a port its SMA alone knows (PortInfo, IBTA vol 1 §14.2.5.6): no packet needs it, so that
/// the tables that processes share have it not.
struct ManagedPort {
  std::uint16_t pkey_violations{};  ///< both counters saturate
  std::uint16_t qkey_violations{};
  std::uint8_t subnet_timeout{};  ///< exponent
  std::uint8_t init_type_reply{};
};

/// Asks the daemon, by a connection of its own, about a port of a device of the options' host.
/// NoSuchDevice: it knows no such port (any more); else why it cannot be asked.
[[nodiscard]] Result<ManagedPort> ask_managed_port(const ProcessOptions& options,
                                                   const std::string& device, PortNumber port);

}  // namespace weft::host
