#pragma once

// What routing engines see of a subnet: switches by position, the cables between them, and which
// LIDs are where. Values.

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/identifiers.h"
#include "subnet/subnet.h"

namespace weft::subnet {

inline constexpr std::uint32_t kFar = std::numeric_limits<std::uint32_t>::max();

/// One direction of a cable between two switches.
struct RoutingLink {
  std::uint32_t from{};     // position
  std::uint32_t to{};       // position
  std::uint32_t reverse{};  // index of the other direction
  PortNumber port{};        // of `from`
};

/// A LID and the switch that the last cable to it leaves from.
struct RoutingDestination {
  Lid lid{};
  std::uint32_t at{};       // position
  PortNumber port{};        // there: 0 for the switch itself
  std::uint32_t ordinal{};  // of the host port or the switch, whatever its path bits
  std::uint8_t path_bits{};
  bool is_host{};
};

struct RoutingGraph {
  std::vector<NodeId> switches;                  // by position
  std::vector<std::uint32_t> position_of;        // by node; kFar for others
  std::vector<std::uint32_t> first_link;         // by position, and one more
  std::vector<RoutingLink> links;                // by switch, then by peer and port
  std::vector<std::uint32_t> first_destination;  // by position, and one more
  std::vector<RoutingDestination> destinations;  // by switch; LIDs of one port in a row
  std::vector<std::uint32_t> host_ports;         // by position: cabled to HCA ports
  std::vector<std::uint32_t> level;  // hops to the nearest switch with hosts; kFar when none is
  std::uint32_t lid_end{};           // one above the highest LID

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

/// Of all links that are up at both ends; a cable from a switch to itself leads nowhere.
[[nodiscard]] RoutingGraph make_routing_graph(const Subnet& subnet);

/// Hops over cables from what `queue` holds, at distance 0; `queue` then has all that was reached,
/// the nearest first.
void measure_distances(const RoutingGraph& graph, std::vector<std::uint32_t>& distance,
                       std::vector<std::uint32_t>& queue);

}  // namespace weft::subnet
