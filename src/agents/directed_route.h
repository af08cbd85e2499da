#pragma once

// Directed route SMPs: by which port each node's SMI sends one on (IBTA vol 1 §14.2.2, C14-9
// outbound and C14-13 returning). Crossing the cable is the network's business
// (carriage/management_network.h). Pure functions; no threads.

#include "carriage/node_agents.h"
#include "fabric/tables.h"

namespace weft::agents {

/// Moves the hop pointer and, outbound, notes the way back.
[[nodiscard]] carriage::SmiStep next_step(const fabric::TablesBuilder& tables,
                                          carriage::DirectedSmp& smp);

}  // namespace weft::agents
