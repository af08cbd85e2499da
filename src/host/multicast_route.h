#pragma once

// What a process knows of the way of its multicast packets from one of its LIDs to one group: found
// once, until the tables or the members change, so that sending asks nobody and allocates nothing
// (docs/ARCHITECTURE.md, decisions 1 and 8).

#include <cstdint>
#include <map>
#include <vector>

#include "base/time.h"
#include "fabric/counters.h"
#include "fabric/link_crossing.h"
#include "fabric/link_model.h"
#include "fabric/path.h"
#include "uabi/messages.h"

namespace weft::host {

struct MulticastRoute {
  /// To a process of the group on a node that the tree reaches, or on the sender's own.
  struct Copy {
    uabi::ProcessAddress member;
    std::vector<std::uint32_t> edges;  // to ports of its node; none: it is the sender's
  };
  using Shape = std::vector<bool>;  // by edge: whether it was crossed, and whether it lost

  std::uint64_t generation{};  // of the tables
  std::uint64_t groups_generation{};
  fabric::MulticastTree tree;
  fabric::PathEntry* counter{};
  std::vector<Copy> copies;
  bool has_lanes{};  // none of the copies' is being made

  // Of the packet that is just sent; kept for the next.
  std::vector<fabric::Transit> ends;            // by edge, if the tree's edges take time
  std::vector<fabric::EdgeCrossing> crossings;  // by edge, if there are faults

  // With faults: the parts of the tree that were crossed so far, and damage by edge.
  std::map<Shape, fabric::PathEntry*> parts;
  std::map<std::uint32_t, fabric::PathEntry*> damage;
};

}  // namespace weft::host
