#pragma once

// Ports of virtual functions in the tables. Such a port is an HCA port without a cable that has the
// LID of a physical port: its packets enter and leave the fabric there. The physical port's GID
// table has the function's GID, too, at the index that is the function's number (IBTA vol 1
// §14.2.5.5), and that is how the two find each other.
//
// Functions of a port share its QPNs: each borrows process slots of the port's host, a few at a
// time, and the tables say which (TablesBuilder::lend_slots). So LID and QPN say whose a packet is,
// as without functions.

#include <cstdint>
#include <vector>

#include "base/identifiers.h"
#include "base/process_slot.h"
#include "fabric/tables.h"
#include "fabric/topology.h"

namespace weft::fabric {

/// Policy: process slots that a host has for itself whatever its functions borrow.
inline constexpr std::uint32_t kSlotsOfPhysical = 32;
/// Functions of a port beside the physical one. GUIDInfo has room for 254 (GUIDCap has eight bits,
/// IBTA vol 1 §14.2.5.6), and each function must be able to borrow some slots; policy.
inline constexpr std::uint32_t kMostVirtualFunctions = 247;
/// Policy: programs of a function at a time.
inline constexpr std::uint32_t kMostProgramsOfFunction = 32;
static_assert(kSlotsOfPhysical + kMostVirtualFunctions * kSlotsPerLoan <= kSlotCount,
              "all functions can have programs at once");
static_assert(kMaxFunctionsPerHost == kMostVirtualFunctions, "files say no more than there can be");

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
