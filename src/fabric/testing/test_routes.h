#pragma once

// LIDs and routes written directly into the tables, for tests and fuzzers of the layers below
// subnet management. Single-threaded.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/identifiers.h"
#include "base/result.h"
#include "fabric/tables.h"

namespace weft::fabric::testing {

/// A stand-in for a subnet manager.
class TestRoutes {
 public:
  /// `builder` must outlive this object.
  explicit TestRoutes(TablesBuilder& builder);

  /// Makes every cabled port Active and assigns LIDs: to hosts first, in order, then to port 0 of
  /// each switch. The subnet manager is said to be at the first host's first port. Routes are
  /// shortest paths, spread over equal ones by destination (in a fat tree by its digits, so that
  /// each upward port serves equally many hosts). The LIDs of a port with an LMC use different
  /// paths where possible.
  [[nodiscard]] Result<void> bring_up();

  /// Recomputes routes after links changed state; LIDs stay.
  void reroute();

  /// Adds or removes an HCA port; a group without members is removed. All groups share one spanning
  /// tree.
  [[nodiscard]] Result<void> join(Lid mlid, PortIndex port);
  [[nodiscard]] Result<void> leave(Lid mlid, PortIndex port);

 private:
  struct Neighbour {
    PortNumber port;         // of this switch
    std::uint32_t position;  // of the other switch
  };

  [[nodiscard]] Result<void> assign_lids();
  void map_switches();
  /// Breadth-first from the content of `queue`; `distance` is kNoIndex where unknown.
  void measure_distances(std::vector<std::uint32_t>& distance,
                         std::vector<std::uint32_t>& queue) const;
  void route_unicast();
  void route_to_switch(std::uint32_t position);
  void grow_tree();
  void program_group(Lid mlid);
  void clear_group(Lid mlid);
  [[nodiscard]] bool carries_data(const PortRecord& port) const;

  TablesBuilder& builder_;
  std::vector<NodeIndex> switches_;                 // by position
  std::vector<std::uint32_t> position_of_node_;     // by node; kNoIndex for hosts
  std::vector<std::vector<Neighbour>> neighbours_;  // by position
  std::vector<std::vector<PortIndex>> attached_;    // HCA ports by position
  std::vector<std::uint32_t> level_;                // hops to the nearest switch with HCAs
  std::vector<std::uint32_t> ordinal_of_port_;      // of HCA ports, by port
  std::vector<std::uint32_t> tree_order_;           // positions, parents first
  std::vector<std::uint32_t> tree_parent_;          // by position; kNoIndex for a root
  std::vector<PortNumber> tree_port_to_parent_;     // by position
  std::vector<PortNumber> tree_port_from_parent_;   // by position
  std::map<Lid, std::set<PortIndex>> groups_;
};

namespace test_routes {

/// Groups that a switch's forwarding tables can hold (MulticastFDBCap); policy.
inline constexpr std::uint32_t kGroupsPerSwitch = 1024;
inline constexpr std::uint32_t kEndOfUnicast = 0xC000;  // IBTA vol 1 §4.1.3
inline constexpr std::uint32_t kUnreachable = kNoIndex;

/// The digit of `ordinal` by which a switch `level` steps above the leaves chooses its port. Leaves
/// use the lowest digit, so that the switches above see all values of the next one.
inline std::size_t choice(std::uint64_t ordinal, std::uint32_t level, std::size_t candidates) {
  for (std::uint32_t i = 0; i < level && ordinal != 0; ++i) {
    ordinal /= candidates;
  }
  return ordinal % candidates;
}

}  // namespace test_routes

inline TestRoutes::TestRoutes(TablesBuilder& builder)
    : builder_(builder), position_of_node_(builder.nodes().size(), kNoIndex) {
  for (std::size_t i = 0; i < builder.nodes().size(); ++i) {
    if (builder.nodes()[i].kind == NodeKind::Switch) {
      position_of_node_[i] = static_cast<std::uint32_t>(switches_.size());
      switches_.push_back(NodeIndex{static_cast<std::uint32_t>(i)});
    }
  }
}

inline Result<void> TestRoutes::bring_up() {
  if (auto assigned = assign_lids(); !assigned) {
    return assigned;
  }
  std::set<PortIndex>& everyone = groups_[kBroadcastMlid];
  for (std::size_t i = 0; i < builder_.ports().size(); ++i) {
    const PortIndex index{static_cast<std::uint32_t>(i)};
    const PortRecord& port = builder_.port(index);
    const bool is_management_port = port.is_switch_port() && port.number == PortNumber{};
    if (is_management_port || port.peer != kNoPort) {
      builder_.set_state(index, PortState::Active);
    }
    if (!port.is_switch_port() && port.peer != kNoPort) {
      everyone.insert(index);
    }
    if (port.lid != Lid{}) {
      builder_.set_subnet_manager(index, builder_.ports().front().lid, {});
    }
  }
  reroute();
  return {};
}

inline Result<void> TestRoutes::assign_lids() {
  std::uint32_t next = 1;
  for (const bool for_switches : {false, true}) {
    for (std::size_t i = 0; i < builder_.ports().size(); ++i) {
      const PortIndex index{static_cast<std::uint32_t>(i)};
      const PortRecord& port = builder_.port(index);
      const bool takes_one =
          port.is_switch_port() ? port.number == PortNumber{} : port.peer != kNoPort;
      if (port.is_switch_port() != for_switches || !takes_one) {
        continue;
      }
      const std::uint32_t count = 1U << port.lmc;
      const std::uint32_t lid = (next + count - 1) / count * count;
      if (lid + count > test_routes::kEndOfUnicast) {
        return fail(ErrorCode::OutOfMemory,
                    "the fabric has more ports than the {} unicast LIDs of a subnet; lower LMCs or "
                    "fewer nodes would fit",
                    test_routes::kEndOfUnicast - 1);
      }
      builder_.set_lid(index, Lid{lid}, port.lmc);
      next = lid + count;
    }
  }
  return {};
}

inline void TestRoutes::reroute() {
  map_switches();
  route_unicast();
  grow_tree();
  for (const NodeIndex node : switches_) {
    for (const auto& [mlid, members] : groups_) {
      builder_.clear_multicast(node, mlid);
    }
  }
  for (const auto& [mlid, members] : groups_) {
    program_group(mlid);
  }
}

inline bool TestRoutes::carries_data(const PortRecord& port) const {
  return port.peer != kNoPort && port.state == PortState::Active &&
         builder_.port(port.peer).state == PortState::Active;
}

inline void TestRoutes::map_switches() {
  neighbours_.assign(switches_.size(), {});
  attached_.assign(switches_.size(), {});
  level_.assign(switches_.size(), test_routes::kUnreachable);
  ordinal_of_port_.assign(builder_.ports().size(), 0);
  std::uint32_t ordinal = 0;
  for (std::size_t i = 0; i < builder_.ports().size(); ++i) {
    const PortIndex index{static_cast<std::uint32_t>(i)};
    const PortRecord& port = builder_.port(index);
    if (!carries_data(port)) {
      continue;
    }
    const PortRecord& peer = builder_.port(port.peer);
    if (port.is_switch_port() && peer.is_switch_port()) {
      neighbours_[position_of_node_[port.node.value()]].push_back(
          {port.number, position_of_node_[peer.node.value()]});
    } else if (!port.is_switch_port()) {
      ordinal_of_port_[i] = ordinal++;
      if (peer.is_switch_port()) {
        attached_[position_of_node_[peer.node.value()]].push_back(index);
      }
    }
  }
  std::vector<std::uint32_t> queue;
  for (std::uint32_t position = 0; position < switches_.size(); ++position) {
    if (!attached_[position].empty()) {
      level_[position] = 0;
      queue.push_back(position);
    }
  }
  measure_distances(level_, queue);
}

inline void TestRoutes::measure_distances(std::vector<std::uint32_t>& distance,
                                          std::vector<std::uint32_t>& queue) const {
  for (std::size_t next = 0; next < queue.size(); ++next) {
    for (const Neighbour& neighbour : neighbours_[queue[next]]) {
      if (distance[neighbour.position] == test_routes::kUnreachable) {
        distance[neighbour.position] = distance[queue[next]] + 1;
        queue.push_back(neighbour.position);
      }
    }
  }
}

inline void TestRoutes::route_unicast() {
  for (const NodeIndex node : switches_) {
    builder_.clear_forwarding(node);
  }
  for (std::uint32_t position = 0; position < switches_.size(); ++position) {
    route_to_switch(position);
  }
}

inline void TestRoutes::route_to_switch(std::uint32_t position) {
  struct Destination {
    Lid lid;
    std::uint64_t ordinal;
  };
  const NodeRecord& node = builder_.node(switches_[position]);
  std::vector<Destination> destinations{
      {builder_.port(node.first_port).lid, position}
  };
  builder_.set_forwarding(switches_[position], destinations[0].lid, PortNumber{});
  for (const PortIndex index : attached_[position]) {
    const PortRecord& port = builder_.port(index);
    for (std::uint32_t bits = 0; bits < 1U << port.lmc; ++bits) {
      const Lid lid{port.lid.value() + bits};
      destinations.push_back({lid, std::uint64_t{ordinal_of_port_[index.value()]} + bits});
      builder_.set_forwarding(switches_[position], lid, builder_.port(port.peer).number);
    }
  }

  std::vector<std::uint32_t> distance(switches_.size(), test_routes::kUnreachable);
  std::vector<std::uint32_t> queue{position};
  distance[position] = 0;
  measure_distances(distance, queue);
  std::vector<PortNumber> candidates;
  for (const std::uint32_t from : queue) {
    if (from == position) {
      continue;
    }
    candidates.clear();
    for (const Neighbour& neighbour : neighbours_[from]) {
      if (distance[neighbour.position] + 1 == distance[from]) {
        candidates.push_back(neighbour.port);
      }
    }
    for (const Destination& destination : destinations) {
      builder_.set_forwarding(
          switches_[from], destination.lid,
          candidates[test_routes::choice(destination.ordinal, level_[from], candidates.size())]);
    }
  }
}

inline void TestRoutes::grow_tree() {
  tree_order_.clear();
  tree_parent_.assign(switches_.size(), kNoIndex);
  tree_port_to_parent_.assign(switches_.size(), PortNumber{});
  tree_port_from_parent_.assign(switches_.size(), PortNumber{});
  std::vector<std::uint32_t> roots(switches_.size());  // the highest first: shortest branches
  for (std::uint32_t position = 0; position < switches_.size(); ++position) {
    roots[position] = position;
  }
  const auto height = [&](std::uint32_t position) {
    return level_[position] == test_routes::kUnreachable ? 0 : level_[position] + 1;
  };
  std::ranges::sort(roots, [&](std::uint32_t a, std::uint32_t b) {
    return std::pair{height(b), a} < std::pair{height(a), b};
  });
  std::vector<bool> is_in_tree(switches_.size());
  for (const std::uint32_t root : roots) {
    if (is_in_tree[root]) {
      continue;
    }
    is_in_tree[root] = true;
    tree_order_.push_back(root);
    for (std::size_t next = tree_order_.size() - 1; next < tree_order_.size(); ++next) {
      const std::uint32_t parent = tree_order_[next];
      for (const Neighbour& neighbour : neighbours_[parent]) {
        if (is_in_tree[neighbour.position]) {
          continue;
        }
        const NodeRecord& node = builder_.node(switches_[parent]);
        const PortIndex port{node.first_port.value() + neighbour.port.value()};
        is_in_tree[neighbour.position] = true;
        tree_parent_[neighbour.position] = parent;
        tree_port_from_parent_[neighbour.position] = neighbour.port;
        tree_port_to_parent_[neighbour.position] = builder_.port(builder_.port(port).peer).number;
        tree_order_.push_back(neighbour.position);
      }
    }
  }
}

inline void TestRoutes::clear_group(Lid mlid) {
  for (const NodeIndex node : switches_) {
    builder_.clear_multicast(node, mlid);
  }
}

/// Each switch forwards up if members lie outside its branch, and down into each branch with
/// members, so that any port on the tree may send.
inline void TestRoutes::program_group(Lid mlid) {
  std::vector<std::uint32_t> below(switches_.size());
  for (const PortIndex index : groups_.at(mlid)) {
    const PortRecord& port = builder_.port(index);
    if (!carries_data(port) || !builder_.port(port.peer).is_switch_port()) {
      continue;
    }
    const PortRecord& peer = builder_.port(port.peer);
    ++below[position_of_node_[peer.node.value()]];
    builder_.set_multicast(peer.node, mlid, peer.number, true);
  }
  for (auto at = tree_order_.rbegin(); at != tree_order_.rend(); ++at) {
    if (tree_parent_[*at] != kNoIndex) {
      below[tree_parent_[*at]] += below[*at];
    }
  }
  std::vector<std::uint32_t> in_whole_tree = below;
  for (const std::uint32_t position : tree_order_) {
    const std::uint32_t parent = tree_parent_[position];
    if (parent == kNoIndex) {
      continue;
    }
    in_whole_tree[position] = in_whole_tree[parent];
    if (below[position] > 0) {
      builder_.set_multicast(switches_[parent], mlid, tree_port_from_parent_[position], true);
    }
    if (in_whole_tree[position] > below[position]) {
      builder_.set_multicast(switches_[position], mlid, tree_port_to_parent_[position], true);
    }
  }
}

inline Result<void> TestRoutes::join(Lid mlid, PortIndex port) {
  if (!mlid.is_multicast() ||
      mlid.value() - kBroadcastMlid.value() >= test_routes::kGroupsPerSwitch) {
    return fail(ErrorCode::InvalidArgument, "MLID {:#x} is not in {:#x}..{:#x}", mlid.value(),
                kBroadcastMlid.value(), kBroadcastMlid.value() + test_routes::kGroupsPerSwitch - 1);
  }
  if (port.value() >= builder_.ports().size() || builder_.port(port).is_switch_port()) {
    return fail(ErrorCode::InvalidArgument, "port {} is no HCA port of this fabric", port.value());
  }
  groups_[mlid].insert(port);
  clear_group(mlid);
  program_group(mlid);
  return {};
}

inline Result<void> TestRoutes::leave(Lid mlid, PortIndex port) {
  const auto group = groups_.find(mlid);
  if (group == groups_.end() || group->second.erase(port) == 0) {
    return fail(ErrorCode::NotFound, "port {} is no member of MLID {:#x}", port.value(),
                mlid.value());
  }
  clear_group(mlid);
  if (group->second.empty()) {
    groups_.erase(group);
  } else {
    program_group(mlid);
  }
  return {};
}

}  // namespace weft::fabric::testing
