#pragma once

// Ports of virtual functions in the tables. Such a port is an HCA port without a cable that has the
// LID of a physical port: its packets enter and leave the fabric there. The physical port's GID
// table has the function's GID, too, at the index that is the function's number (IBTA vol 1
// §14.2.5.5), and that is how the two find each other.
//
// Functions of a port share its QPNs: each has a block of process slots, counted from the top
// (policy). So LID and QPN say whose a packet is, as without functions.

#include <cstdint>
#include <vector>

#include "base/identifiers.h"
#include "base/process_slot.h"
#include "fabric/tables.h"
#include "fabric/topology.h"

namespace weft::fabric {

/// Policy: process slots of a function, and functions of a port beside the physical one, for which
/// GUIDInfo of an HCA has room.
inline constexpr std::uint32_t kSlotsPerFunction = 32;
inline constexpr std::uint32_t kMostVirtualFunctions = 31;

/// The first slot of virtual function 1, 2, ...
[[nodiscard]] constexpr std::uint32_t first_slot_of_function(std::uint32_t function) {
  return kSlotCount - function * kSlotsPerFunction;
}
static_assert(first_slot_of_function(kMostVirtualFunctions) > 1, "the physical one has slots left");
static_assert(kMaxFunctionsPerHost == kMostVirtualFunctions, "files say no more than there can be");

/// The function to which a slot may be lent: 0, the physical one, or a virtual one.
[[nodiscard]] constexpr std::uint32_t function_of_slot(std::uint32_t slot) {
  const std::uint32_t function = (kSlotCount - 1 - slot) / kSlotsPerFunction + 1;
  return function <= kMostVirtualFunctions ? function : 0;
}

/// Where packets of an HCA port enter the fabric: the port itself, or its physical port.
[[nodiscard]] PortIndex physical_port(const TablesView& view, PortIndex port);

/// The port of the QP at a LID: the LID's owner, or that of a function of it. kNoPort if nobody has
/// the LID.
[[nodiscard]] PortIndex port_of_qp(const TablesView& view, Lid lid, Qpn qpn);

/// The port of `node` with this LID, a function's or a physical one; kNoPort without one.
[[nodiscard]] PortIndex port_of_node(const TablesView& view, NodeIndex node, Lid lid);

/// The ports of the virtual functions of a physical port, in the order of their numbers.
[[nodiscard]] std::vector<PortIndex> functions_of(const TablesView& view, PortIndex physical);

}  // namespace weft::fabric
