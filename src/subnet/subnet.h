#pragma once

// What a subnet manager knows of its subnet, learned through MADs alone (docs/ARCHITECTURE.md,
// decision 12). Values that the manager fills in and that routing and SA read. One thread.

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

/// Position in Subnet::nodes().
using NodeId = Ordered<struct NodeIdTag, std::uint32_t>;
inline constexpr NodeId kNoNode{0xFFFF'FFFF};

/// A port of the subnet. Of a switch, port 0 is the one that has LIDs.
struct PortId {
  NodeId node{kNoNode};
  PortNumber number{};
  friend constexpr auto operator<=>(const PortId&, const PortId&) = default;
};

inline constexpr Lid kFirstMulticastLid{0xC000};       // IBTA vol 1 §4.1.3
inline constexpr std::uint32_t kEndOfUnicast{0xC000};  // IBTA vol 1 §4.1.3

/// The ports that a switch forwards an MLID to.
using PortMask = std::bitset<256>;

/// The output ports of a directed route, one a hop (IBTA vol 1 §14.2.2); empty: the SM's own node.
using DirectedRoute = std::vector<PortNumber>;

struct SubnetPort {
  PortNumber number{};
  Guid guid{};                ///< of a switch: its node's, and of port 0 only
  wire::PortInfo info{};      ///< as last read or written
  PortId peer{};              ///< at the other end of the cable; kNoNode: nobody known
  std::vector<PKey> pkeys{};  ///< of the whole table, zeros too
  std::vector<Guid> guids{};  ///< GUIDInfo; entry 0 is `guid`
  std::vector<wire::SlToVlMappingTable> sl_to_vl{};        ///< by input port, of an HCA one
  std::vector<wire::VlArbitrationTable> vl_arbitration{};  ///< blocks 1 to 4 (§14.2.5.9)
  DirectedRoute route{};  ///< of an HCA port: how the SM reaches it

  /// Carries data as far as this end is concerned.
  [[nodiscard]] bool is_active() const { return info.port_state == wire::LinkState::Active; }
  /// At least Init: the link is up.
  [[nodiscard]] bool is_up() const { return info.port_state > wire::LinkState::Down; }
  /// The port answers to `lid`: its base LID with any path bits.
  [[nodiscard]] bool owns(Lid lid) const {
    return info.lid != Lid{} && lid >= info.lid && lid.value() - info.lid.value() < lid_count();
  }
  [[nodiscard]] std::uint32_t lid_count() const { return 1U << info.lmc; }
};

struct SubnetNode {
  wire::NodeInfo info{};  ///< as the port said it that was found first
  wire::NodeDescription description{};
  /// By number: of a switch 0 .. port_count; of others [0] is not used, and ports that were not
  /// reached themselves have GUID 0.
  std::vector<SubnetPort> ports{};
  std::optional<wire::SwitchInfo> switch_info{};
  std::vector<PortNumber> forwarding{};  ///< of a switch, by LID, up to LinearFDBTop
  std::vector<PortMask> multicast{};     ///< of a switch, by MLID from 0xC000 on
  DirectedRoute route{};                 ///< of a switch: how the SM reaches it

  [[nodiscard]] bool is_switch() const { return info.node_type == wire::NodeType::Switch; }
  /// Where packets to `lid` leave a switch; kNoForwardingPort when they are discarded.
  [[nodiscard]] PortNumber forward(Lid lid) const {
    return lid.value() < forwarding.size() ? forwarding[lid.value()] : wire::kNoForwardingPort;
  }
};

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

  /// A node with its ports numbered and nothing known of them. Its node GUID must be new.
  NodeId add_node(const wire::NodeInfo& info);
  /// The port of a NodeInfo has this GUID.
  void set_port_guid(PortId port, Guid guid);
  /// Both ends of a cable.
  void connect(PortId a, PortId b);
  /// The port's base LID and LMC in its PortInfo; the LIDs that it had before are free.
  void set_lids(PortId port, Lid base, std::uint8_t lmc);

  [[nodiscard]] std::optional<NodeId> find_node(Guid node_guid) const;
  [[nodiscard]] std::optional<PortId> find_port(Guid port_guid) const;
  /// The port that answers to the LID, its base LID with any path bits.
  [[nodiscard]] std::optional<PortId> find_lid(Lid lid) const;
  /// By a GID with the subnet's or the default prefix: any GUID of the port (GUIDInfo).
  [[nodiscard]] std::optional<PortId> find_gid(const Gid& gid) const;
  /// The highest LID in use, 0 when none is.
  [[nodiscard]] Lid highest_lid() const { return Lid{highest_lid_}; }

  /// How the SM reaches the port by directed route.
  [[nodiscard]] const DirectedRoute& route_to(PortId port) const {
    return node(port.node).is_switch() ? node(port.node).route : this->port(port).route;
  }
  /// What the port's GID 0 is.
  [[nodiscard]] Gid gid_of(PortId port) const { return Gid{subnet_prefix, this->port(port).guid}; }

  std::uint64_t subnet_prefix{kDefaultGidPrefix};
  std::uint64_t generation{};  ///< another one after each change

 private:
  std::vector<SubnetNode> nodes_;
  std::unordered_map<Guid, NodeId> node_of_guid_;
  std::unordered_map<Guid, PortId> port_of_guid_;
  std::vector<PortId> port_of_lid_;
  std::uint32_t highest_lid_{};
};

}  // namespace weft::subnet
