#pragma once

// The subnet manager's model of its subnet, learned through MADs only (docs/ARCHITECTURE.md,
// decision 12). Filled in by the manager, read by routing and SA. Not thread-safe.

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/identifiers.h"
#include "base/keys.h"
#include "base/strong.h"
#include "wire/mad/forwarding_tables.h"
#include "wire/mad/node_info.h"
#include "wire/mad/port_info.h"
#include "wire/mad/port_tables.h"
#include "wire/mad/switch_info.h"

namespace weft::subnet {

/// Index into Subnet::nodes().
using NodeId = Ordered<struct NodeIdTag, std::uint32_t>;
inline constexpr NodeId kNoNode{0xFFFF'FFFF};

/// A port of the subnet. A switch's LIDs belong to its port 0.
struct PortId {
  NodeId node{kNoNode};
  PortNumber number{};
  friend constexpr auto operator<=>(const PortId&, const PortId&) = default;
};

inline constexpr Lid kFirstMulticastLid{0xC000};       // IBTA vol 1 §4.1.3
inline constexpr std::uint32_t kEndOfUnicast{0xC000};  // IBTA vol 1 §4.1.3

/// Set of egress ports for an MLID.
using PortMask = std::bitset<256>;

/// Egress ports of a directed route, one per hop (IBTA vol 1 §14.2.2); empty for the SM's local
/// node.
using DirectedRoute = std::vector<PortNumber>;

/// A port, as last read or written by SMPs.
struct SubnetPort {
  PortNumber number{};
  Guid guid{};                ///< for switches the node's GUID, at port 0 only
  wire::PortInfo info{};      ///< as last read or written
  PortId peer{};              ///< port at the other end of the cable; kNoNode if unknown
  std::vector<PKey> pkeys{};  ///< the whole table, including empty entries
  std::vector<Guid> guids{};  ///< GUIDInfo; entry 0 is `guid`
  std::vector<wire::SlToVlMappingTable> sl_to_vl{};        ///< by ingress port; an HCA has one
  std::vector<wire::VlArbitrationTable> vl_arbitration{};  ///< blocks 1 to 4 (§14.2.5.9)
  DirectedRoute route{};                                   ///< HCA port: directed route from the SM

  /// The port is Active.
  [[nodiscard]] bool is_active() const { return info.port_state == wire::LinkState::Active; }
  /// The link is up (Init or higher).
  [[nodiscard]] bool is_up() const { return info.port_state > wire::LinkState::Down; }
  /// The port owns `lid`: its base LID with any path bits.
  [[nodiscard]] bool owns(Lid lid) const {
    return info.lid != Lid{} && lid >= info.lid && lid.value() - info.lid.value() < lid_count();
  }
  [[nodiscard]] std::uint32_t lid_count() const { return 1U << info.lmc; }
};

/// A node, with all its ports.
struct SubnetNode {
  wire::NodeInfo info{};  ///< from the port discovered first
  wire::NodeDescription description{};
  /// By port number: 0 .. port_count for a switch; otherwise [0] is unused, and undiscovered ports
  /// have GUID 0.
  std::vector<SubnetPort> ports{};
  std::optional<wire::SwitchInfo> switch_info{};
  std::vector<PortNumber> forwarding{};  ///< switch: egress port by LID, up to LinearFDBTop
  std::vector<PortMask> multicast{};     ///< switch: by MLID, from 0xC000 on
  DirectedRoute route{};                 ///< switch: directed route from the SM

  [[nodiscard]] bool is_switch() const { return info.node_type == wire::NodeType::Switch; }
  /// A switch's egress port for `lid`; kNoForwardingPort if it discards the packet.
  [[nodiscard]] PortNumber forward(Lid lid) const {
    return lid.value() < forwarding.size() ? forwarding[lid.value()] : wire::kNoForwardingPort;
  }
};

/// All nodes of a subnet, indexed by GUID and LID.
class Subnet {
 public:
  [[nodiscard]] std::span<const SubnetNode> nodes() const { return nodes_; }
  [[nodiscard]] std::span<SubnetNode> nodes() { return nodes_; }
  [[nodiscard]] bool contains(NodeId id) const { return id.value() < nodes_.size(); }
  [[nodiscard]] const SubnetNode& node(NodeId id) const { return nodes_.at(id.value()); }
  [[nodiscard]] SubnetNode& node(NodeId id) { return nodes_.at(id.value()); }
  [[nodiscard]] const SubnetPort& port(PortId id) const {
    return node(id.node).ports.at(id.number.value());
  }
  [[nodiscard]] SubnetPort& port(PortId id) { return node(id.node).ports.at(id.number.value()); }

  /// Adds a node with empty ports. Its node GUID must be new.
  NodeId add_node(const wire::NodeInfo& info);
  /// Records the port GUID from a NodeInfo.
  void set_port_guid(PortId port, Guid guid);
  /// Records a cable.
  void connect(PortId a, PortId b);
  /// Sets base LID and LMC in the port's PortInfo and releases its previous LIDs.
  void set_lids(PortId port, Lid base, std::uint8_t lmc);

  [[nodiscard]] std::optional<NodeId> find_node(Guid node_guid) const;
  [[nodiscard]] std::optional<PortId> find_port(Guid port_guid) const;
  /// Finds the owner of a LID, including path bits.
  [[nodiscard]] std::optional<PortId> find_lid(Lid lid) const;
  /// Finds a port by GID: subnet or default prefix, and any GUID in its GUIDInfo.
  [[nodiscard]] std::optional<PortId> find_gid(const Gid& gid) const;
  /// The highest LID in use; 0 if there is none.
  [[nodiscard]] Lid highest_lid() const { return Lid{highest_lid_}; }

  /// The SM's directed route to the port.
  [[nodiscard]] const DirectedRoute& route_to(PortId port) const {
    return node(port.node).is_switch() ? node(port.node).route : this->port(port).route;
  }
  /// GID 0 of the port.
  [[nodiscard]] Gid gid_of(PortId port) const { return Gid{subnet_prefix, this->port(port).guid}; }

  std::uint64_t subnet_prefix{kDefaultGidPrefix};
  std::uint64_t generation{};  ///< changes with each modification

 private:
  std::vector<SubnetNode> nodes_;
  std::unordered_map<Guid, NodeId> node_of_guid_;
  std::unordered_map<Guid, PortId> port_of_guid_;
  std::vector<PortId> port_of_lid_;
  std::uint32_t highest_lid_{};
};

}  // namespace weft::subnet
