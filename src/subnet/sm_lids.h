#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "base/identifiers.h"
#include "base/result.h"
#include "subnet/subnet.h"
#include "subnet/subnet_manager_options.h"

namespace weft::subnet {

/// Base LIDs by port GUID, including ports that are currently absent.
using LidMemory = std::unordered_map<Guid, Lid>;

/// Assigns LIDs to all HCA ports and switch ports 0 (IBTA vol 1 §14.4.4). A port keeps the LIDs in
/// its PortInfo, else those remembered for it, unless another port has them. The rest get the
/// lowest free ones from `first_lid` on, HCA ports first in order of their GUIDs. The result is
/// stored in PortInfo. Fails if LIDs run out, after assigning those that were left.
[[nodiscard]] Result<void> assign_lids(Subnet& subnet, const SubnetManagerOptions& options,
                                       LidMemory& memory);

}  // namespace weft::subnet
