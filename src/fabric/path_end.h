#pragma once

// How a packet's path ends, and how a drop is counted. Values; no threads.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fabric/tables.h"

namespace weft::fabric {

/// Whether a path leads to its destination, and if not, why.
enum class PathUse : std::uint8_t {
  Delivered,       // reaches the port that owns the DLID; the receiver checks the P_Key
  SourceDown,      // the source port is not Active
  NoCable,         // an egress port has no cable
  LinkDown,        // an egress port, or its peer, does not let the packet pass
  NoRoute,         // a switch has no forwarding entry for the DLID, or one for a port it lacks
  Loop,            // longer than kMaxHops, or sent back through its ingress
  NotTheOwner,     // ends at an HCA port or switch that does not own the DLID
  InvalidDlid,     // 0, the permissive LID, or not unicast: the next port drops it
  ManagementLane,  // the source port maps the service level to VL15, which is for SMPs
};

/// The counter of a dropped packet (IBTA vol 1 §16.1.3.5; its breakdown: §16.1.4).
enum class PathEnd : std::uint8_t {
  Delivered,
  // PortXmitDiscards of the egress port.
  PortInactive,      // PortInactiveDiscards; also for packets that a fault rule loses
  NeighborMtu,       // PortNeighborMTUDiscards
  LifetimeLimit,     // PortSwLifetimeLimitDiscards: a routing loop
  HeadOfQueueLimit,  // PortSwHOQLifetimeLimitDiscards
  // PortRcvSwitchRelayErrors of the ingress port.
  DlidMapping,  // PortDLIDMappingErrors
  Looping,      // PortLoopingErrors: egress would be the ingress
  // PortRcvErrors of the ingress port.
  Malformed,  // PortMalformedPktErrors: not addressed to this HCA
  Damaged,    // PortLocalPhysicalErrors
  // PortXmitDiscards of the source port, without a detail of its own.
  ManagementLane,  // data on VL15
};

inline constexpr std::size_t kPathEnds = static_cast<std::size_t>(PathEnd::ManagementLane) + 1;

/// The counter in which a port counts a drop.
enum class DropCounter : std::uint8_t { XmitDiscards, RcvSwitchRelayErrors, RcvErrors };
/// The counter for a drop; `end` must not be Delivered.
[[nodiscard]] DropCounter drop_counter(PathEnd end);

[[nodiscard]] std::string_view name_of(PathUse outcome);

/// One cable, crossed from `egress` to `ingress`.
struct Hop {
  PortIndex egress;
  PortIndex ingress;
  bool operator==(const Hop&) const = default;
};

/// Classes of packets by the port states that let them pass (IBTA vol 1 §7.2.7): SMPs on VL15 pass
/// from Initialize on; all others go from an Active port to one that is at least Armed.
enum class Traffic : std::uint8_t { Data, SubnetManagement };

/// More links than a sensible path has; beyond it a packet is assumed to loop. Policy: the
/// specification's SwitchLifeTimeValue ends such packets by time instead.
inline constexpr std::size_t kMaxHops = 64;

}  // namespace weft::fabric
