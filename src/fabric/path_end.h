#pragma once

// How the way of a packet ends, and what a dropped one counts as. Values; no threads.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fabric/tables.h"

namespace weft::fabric {

enum class PathUse : std::uint8_t {
  Delivered,    // reaches a port that owns the DLID; P_Keys are the receiver's business
  SourceDown,   // the source port is not Active
  NoCable,      // an egress port has no cable
  LinkDown,     // an egress port does not carry the packet, or its peer does not take it
  NoRoute,      // a switch has no forwarding entry for the DLID, or one for a port it lacks
  Loop,         // longer than kMaxHops, or sent back where it came from
  NotTheOwner,  // ends at an HCA port or switch that does not answer to the DLID
  InvalidDlid,  // 0, the permissive LID, or above the unicast range: the next port drops it
};

/// What a dropped packet counts as, and at which port (IBTA vol 1 §16.1.3.5 and, why, §16.1.4).
enum class PathEnd : std::uint8_t {
  Delivered,
  // PortXmitDiscards of the egress port.
  PortInactive,      // PortInactiveDiscards; also of what a rule of faults loses on the link
  NeighborMtu,       // PortNeighborMTUDiscards
  LifetimeLimit,     // PortSwLifetimeLimitDiscards: in a circle
  HeadOfQueueLimit,  // PortSwHOQLifetimeLimitDiscards
  // PortRcvSwitchRelayErrors of the ingress port.
  DlidMapping,  // PortDLIDMappingErrors
  Looping,      // PortLoopingErrors: out where it came in
  // PortRcvErrors of the ingress port.
  Malformed,  // PortMalformedPktErrors: not for this HCA
  Damaged,    // PortLocalPhysicalErrors
};

inline constexpr std::size_t kPathEnds = static_cast<std::size_t>(PathEnd::Damaged) + 1;

/// The counter of a port that a dropped packet counts in.
enum class DropCounter : std::uint8_t { XmitDiscards, RcvSwitchRelayErrors, RcvErrors };
[[nodiscard]] DropCounter drop_counter(PathEnd end);

[[nodiscard]] std::string_view name_of(PathUse outcome);

/// One cable, crossed from `egress` to `ingress`.
struct Hop {
  PortIndex egress;
  PortIndex ingress;
  bool operator==(const Hop&) const = default;
};

/// Which ports let a packet pass (IBTA vol 1 §7.2.7): SMPs on VL15 do in Initialize; all else goes
/// from an Active port to one that is Armed at least.
enum class Traffic : std::uint8_t { Data, SubnetManagement };

/// More links than any sensible path; beyond it a packet is taken to run in circles (policy, not
/// from the specification, whose SwitchLifeTimeValue ends such packets by time).
inline constexpr std::size_t kMaxHops = 64;

}  // namespace weft::fabric
