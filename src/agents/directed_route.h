#pragma once

// Directed-route SMPs: the port through which each node's SMI forwards one (IBTA vol 1 §14.2.2;
// C14-9 outbound, C14-13 returning). Carrying it over the cable is left to
// carriage/management_network.h. Pure functions, callable on any thread.

#include "carriage/node_agents.h"
#include "fabric/tables.h"

namespace weft::agents {

/// One step of a directed-route SMP at a node: advances the hop pointer of `smp` and, outbound,
/// records the return path.
[[nodiscard]] carriage::SmiStep next_step(const fabric::TablesBuilder& tables,
                                          carriage::DirectedSmp& smp);

}  // namespace weft::agents
