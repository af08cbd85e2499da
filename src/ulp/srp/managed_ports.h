#pragma once

// Which ports of a subnet answer device management, from what SA says of all of them (R-SRPI-8).
// Pure.

#include <span>
#include <string>
#include <vector>

#include "base/identifiers.h"
#include "wire/mad/sa_table_records.h"

namespace weft::srp {

struct ManagedPort {
  Lid lid{};
  Gid gid{};
  std::string node{};  ///< its NodeDescription
  bool operator==(const ManagedPort&) const = default;
};

/// Active ports with IsDeviceManagementSupported (IBTA vol 1 §14.2.5.6), by LID, each once. A port
/// without a NodeRecord has no GID that is known, and is left out.
[[nodiscard]] std::vector<ManagedPort> managed_ports(std::span<const wire::PortInfoRecord> ports,
                                                     std::span<const wire::NodeRecord> nodes);

}  // namespace weft::srp
