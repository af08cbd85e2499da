#pragma once

// The subnet as routing engines see it: switches by position, cables between them, and the switch
// of each LID. Value types.

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/identifiers.h"
#include "subnet/subnet.h"

namespace weft::subnet {

/// Distance of an unreachable switch; also marks nodes that are no switches.
inline constexpr std::uint32_t kUnreachable = std::numeric_limits<std::uint32_t>::max();

/// One direction of a cable between two switches.
struct RoutingLink {
  std::uint32_t from{};     // position
  std::uint32_t to{};       // position
  std::uint32_t reverse{};  // index of the other direction
  PortNumber port{};        // of `from`
};

/// A LID, and the switch it is attached to.
struct RoutingDestination {
  Lid lid{};
  std::uint32_t at{};       // position
  PortNumber port{};        // egress port of that switch; 0 for the switch itself
  std::uint32_t ordinal{};  // index of the host port or switch, the same for all its LIDs
  std::uint8_t path_bits{};
  bool is_host{};
};

/// Switch graph with destinations, in compressed sparse row form.
struct RoutingGraph {
  std::vector<NodeId> switches;                  // by position
  std::vector<std::uint32_t> position_of;        // by node; kUnreachable if it is no switch
  std::vector<std::uint32_t> first_link;         // by position, plus an end entry
  std::vector<RoutingLink> links;                // grouped by switch, then by peer and port
  std::vector<std::uint32_t> first_destination;  // by position, plus an end entry
  std::vector<RoutingDestination> destinations;  // grouped by switch; LIDs of one port are adjacent
  std::vector<std::uint32_t> host_ports;         // by position: number of attached HCA ports
  std::vector<std::uint32_t>
      level;                // hops to the nearest switch with hosts; kUnreachable if unreachable
  std::uint32_t lid_end{};  // highest LID + 1

  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(switches.size()); }
  [[nodiscard]] std::span<const RoutingLink> links_of(std::uint32_t position) const {
    return std::span{links}.subspan(first_link[position],
                                    first_link[position + 1] - first_link[position]);
  }
  [[nodiscard]] std::span<const RoutingDestination> destinations_at(std::uint32_t position) const {
    return std::span{destinations}.subspan(
        first_destination[position], first_destination[position + 1] - first_destination[position]);
  }
};

/// Builds the graph from links that are up at both ends. Cables from a switch to itself are
/// ignored.
[[nodiscard]] RoutingGraph make_routing_graph(const Subnet& subnet);

/// Breadth-first search from the switches in `queue`, whose distance is 0. On return `queue` holds
/// all reached switches in order of distance.
void measure_distances(const RoutingGraph& graph, std::vector<std::uint32_t>& distance,
                       std::vector<std::uint32_t>& queue);

}  // namespace weft::subnet
