#pragma once

// Where a packet goes, found by walking the switches' own forwarding tables as programmed
// (docs/ARCHITECTURE.md, decision 1): a sender resolves a path once per routing generation and
// caches it. Pure functions; results are values.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/identifiers.h"
#include "base/time.h"
#include "fabric/link_model.h"
#include "fabric/tables.h"
#include "wire/encodings.h"

namespace weft::fabric {

/// More links than any sensible path; beyond it a packet is taken to run in circles (policy, not
/// from the specification, whose SwitchLifeTimeValue ends such packets by time).
inline constexpr std::size_t kMaxHops = 64;

enum class PathOutcome : std::uint8_t {
  Delivered,    // reaches a port that owns the DLID; P_Keys are the receiver's business
  SourceDown,   // the source port is not Active
  NoCable,      // an egress port has no cable
  LinkDown,     // an egress port is not Active, or its peer does not take data
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

/// One cable, crossed from `egress` to `ingress`.
struct Hop {
  PortIndex egress;
  PortIndex ingress;
  bool operator==(const Hop&) const = default;
};

/// A link with a rate, named by the port that sends on it.
struct RatedLink {
  PortIndex egress;
  LinkRate rate;
};

/// A rule of faults and the link of a path, or edge of a tree, that it is on.
struct LinkFault {
  std::uint32_t hop{};  // position among the hops or edges
  FaultRecord rule;
};

struct Path {
  PathOutcome outcome{PathOutcome::InvalidDlid};
  PathEnd end{PathEnd::PortInactive};
  bool is_multicast{};
  bool is_tapped{};  // a port crossed, or for a loopback the source itself, has a capture
  wire::Mtu mtu{wire::Mtu::Mtu4096};  // smallest active MTU
  std::uint64_t generation{};
  PortIndex source;
  PortIndex destination{kNoPort};  // the owner of the DLID if Delivered
  PortIndex stopped_at{kNoPort};   // else the port at which packets are counted as dropped
  std::uint32_t rate_mbps{};       // of the slowest link; 0: as fast as memory
  Duration delay;                  // of all cables
  std::vector<Hop> hops;           // the cables crossed, in order; none inside one port
  std::vector<RatedLink> rated;    // those of them with a rate
  std::vector<LinkFault> faults;   // by hop, then in the order of the rules

  /// Packets take time on it.
  [[nodiscard]] bool is_timed() const { return !rated.empty() || delay != Duration{}; }
  [[nodiscard]] bool is_delivered() const { return outcome == PathOutcome::Delivered; }
};

/// The way from an HCA port (or port 0 of a switch) to `dlid`.
[[nodiscard]] Path resolve(const TablesView& view, PortIndex source, Lid dlid);

/// The same path for packets that are lost on link `hop`: it ends in a discard at that link's
/// egress port.
[[nodiscard]] Path discarded_at(const Path& path, std::size_t hop);

/// The same path for packets that link `hop` damages: the port at its far end receives them with an
/// error (PortRcvErrors) and discards them.
[[nodiscard]] Path damaged_at(const Path& path, std::size_t hop);

/// How long one cable of a multicast tree takes, and which one leads to it.
struct TimedEdge {
  LinkRate rate;
  Duration delay;
  std::uint32_t parent{kNoIndex};  // position among the edges; none: it leaves the source
};

/// Where a multicast packet goes. An edge is crossed once, however many members lie behind it.
struct MulticastTree {
  PathOutcome outcome{PathOutcome::InvalidDlid};
  bool is_tapped{};
  wire::Mtu mtu{wire::Mtu::Mtu4096};
  std::uint64_t generation{};
  PortIndex source;
  PortIndex stopped_at{kNoPort};      // if not Delivered
  std::vector<PortIndex> members;     // HCA ports and switch ports 0 reached, without the source
  std::vector<Hop> edges;             // parents before children
  std::vector<TimedEdge> timed;       // of each edge; empty if none takes time or has faults
  std::vector<LinkFault> faults;      // by edge, then in the order of the rules
  std::vector<PortIndex> dropped_at;  // egress ports named by an MFT whose link is down
};

/// Replicates along the multicast forwarding tables from `source`, as a switch does: to every port
/// of the mask but the one the packet came in by. Delivered even if nobody is reached. The sender's
/// own members (loopback of multicast inside its HCA) are the engine's business.
[[nodiscard]] MulticastTree resolve_multicast(const TablesView& view, PortIndex source, Lid mlid);

[[nodiscard]] std::string_view name_of(PathOutcome outcome);

/// `h1:1 -> s1:1, s1:2 -> h2:1: Delivered`, for messages.
[[nodiscard]] std::string describe(const TablesView& view, const Path& path);

}  // namespace weft::fabric
