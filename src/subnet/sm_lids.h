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

/// Which port had which base LID, present or not.
using LidMemory = std::unordered_map<Guid, Lid>;

/// Gives every HCA port and switch port 0 its LIDs (IBTA vol 1 §14.4.4): a port keeps the ones that
/// it says it has, else those that are remembered of it, as long as nobody else has them; the
/// others get the lowest free ones from `first_lid` on, HCA ports in the order of their GUIDs
/// first. PortInfo says then what shall be. Fails when there are too few, with as many given as
/// there were.
[[nodiscard]] Result<void> assign_lids(Subnet& subnet, const SubnetManagerOptions& options,
                                       LidMemory& memory);

}  // namespace weft::subnet
