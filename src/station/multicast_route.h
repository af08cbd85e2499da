#pragma once

// The fan-out of multicast packets from one LID of a process to one group: computed once, until the
// tables or the members change, so that sending asks nobody and allocates nothing
// (docs/ARCHITECTURE.md, decisions 1 and 8). No lock: the sender holds its own.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/process_address.h"
#include "base/time.h"
#include "fabric/counters.h"
#include "fabric/link_crossing.h"
#include "fabric/link_model.h"
#include "fabric/path.h"
#include "fabric/tables.h"

namespace weft::station {

/// What is sent to one process of the group, on a node that the tree reaches or on the sender's
/// own. The receiver finds out at which of its ports the packet arrives.
struct MulticastCopy {
  ProcessAddress member;
  std::vector<std::uint32_t> edges;  // those that end at ports of its node; none: the sender's node
};

/// How one packet comes to one member.
struct CopyDelivery {
  const fabric::Transit* transit{};  // null: at once
  std::uint32_t copies{1};           // more where a rule duplicated it
  Duration held_back;                // by a rule that reorders
};

struct MulticastRoute {
  using Shape = std::vector<bool>;  // by edge, twice: whether it was crossed, and whether it lost

  std::uint64_t generation{};         // of the tables
  std::uint64_t groups_generation{};  // of the members
  fabric::MulticastTree tree;
  fabric::PathEntry* counter{};
  std::vector<MulticastCopy> copies;
  bool has_lanes{};  // no copy waits for its lane to open

  // Of the packet that is being sent; kept to save allocations.
  std::vector<fabric::Transit> ends;            // by edge, if the tree's edges take time
  std::vector<fabric::EdgeCrossing> crossings;  // by edge, if there are rules of faults

  // With faults: counters by the part of the tree that was crossed, and of damage by edge.
  std::map<Shape, fabric::PathEntry*> parts;
  std::map<std::uint32_t, fabric::PathEntry*> damage;

  [[nodiscard]] bool takes_time() const { return !tree.timed.empty(); }
  [[nodiscard]] bool has_faults() const { return !tree.faults.empty(); }

  /// Sets `copies`: one for each of `members` on a node that the tree reaches, or on `own_node`.
  void find_copies(const fabric::TablesView& view, std::span<const ProcessAddress> members,
                   std::uint32_t own_node);

  /// Which edges the current packet crossed, and which lost a copy: the key of `parts`.
  [[nodiscard]] Shape shape() const;
  /// The tree as far as the current packet came. The egress port of an edge that lost it discards.
  [[nodiscard]] fabric::MulticastTree crossed_part() const;
  /// The path to the end of an edge; only of a tree whose edges take time or have faults.
  [[nodiscard]] fabric::Path path_to(std::uint32_t edge) const;
  /// The hops at which captures see the current packet. One that lost it has no ingress.
  [[nodiscard]] std::vector<fabric::Hop> captured_hops() const;
  /// When, and how often, the current packet comes to a member: by the first of the edges to its
  /// node. Nothing: all of them lost it.
  [[nodiscard]] std::optional<CopyDelivery> delivery_of(const MulticastCopy& copy) const;
};

}  // namespace weft::station
