#pragma once

// A stand-in for the subnet manager, to be deleted when src/subnet can bring a fabric up through
// MADs (DESIGN.md, decision 12): it writes the tables directly, which no subnet manager can. No
// other code may depend on how it numbers or routes. One thread.

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "base/identifiers.h"
#include "base/result.h"
#include "fabric/tables.h"

namespace weft::fabric {

/// The group that every HCA port is a member of from the start.
inline constexpr Lid kBroadcastMlid{0xC000};

class StandInSubnetManager {
 public:
  /// `builder` must outlive it.
  explicit StandInSubnetManager(TablesBuilder& builder);

  /// Makes every cabled port Active and gives LIDs: hosts first, in their order, then port 0 of
  /// each switch. It passes for a subnet manager at the first host's first port. Routes are
  /// shortest paths, spread over equal ones by destination (in a fat tree: by the destination's
  /// digits, so that each upward port serves as many hosts). LMC alternatives of a port take
  /// different paths where there are any.
  [[nodiscard]] Result<void> bring_up();

  /// Routes again after links changed state; LIDs stay.
  void reroute();

  /// An HCA port joins or leaves a group; a group without members is forgotten. All groups share
  /// one spanning tree.
  [[nodiscard]] Result<void> join(Lid mlid, PortIndex port);
  [[nodiscard]] Result<void> leave(Lid mlid, PortIndex port);

 private:
  struct Neighbour {
    PortNumber port;         // of this switch
    std::uint32_t position;  // of the other switch
  };

  [[nodiscard]] Result<void> assign_lids();
  void map_switches();
  /// Breadth first from what `queue` holds; `distance` is kNoIndex where not known yet.
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

}  // namespace weft::fabric
