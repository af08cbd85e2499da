#pragma once

// The path of a packet, found by walking the switches' forwarding tables as programmed
// (docs/ARCHITECTURE.md, decision 1). A sender resolves a path once per routing generation and
// caches it. The walk itself is in fabric/walk.h. Pure functions; results are values.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/identifiers.h"
#include "base/time.h"
#include "fabric/link_model.h"
#include "fabric/path_end.h"
#include "fabric/tables.h"
#include "verbs/mtu.h"

namespace weft::fabric {

/// A link with a rate, named by its sending port.
struct RatedLink {
  PortIndex egress;
  LinkRate rate;
};

/// A fault rule and the link of a path, or edge of a tree, to which it applies.
struct LinkFault {
  std::uint32_t hop{};  // index of the hop or edge
  FaultRecord rule;
};

/// A resolved unicast path.
struct Path {
  PathUse outcome{PathUse::InvalidDlid};
  PathEnd end{PathEnd::PortInactive};
  bool is_multicast{};
  bool is_tapped{};  // a port crossed, or for a loopback the source itself, has a capture
  verbs::Mtu mtu{verbs::Mtu::Mtu4096};  // smallest active MTU
  std::uint64_t generation{};
  PortIndex source;
  PortIndex destination{kNoPort};  // the owner of the DLID if Delivered
  PortIndex stopped_at{kNoPort};   // else the port that counts the drop
  std::uint32_t rate_mbps{};       // of the slowest link; 0: no limit
  Duration delay;                  // sum over all cables
  std::vector<Hop> hops;           // the cables crossed, in order; none within one port
  std::vector<RatedLink> rated;    // those with a rate
  std::vector<LinkFault> faults;   // by hop, then in the order of the rules

  /// True if packets take time on the path.
  [[nodiscard]] bool is_timed() const { return !rated.empty() || delay != Duration{}; }
  [[nodiscard]] bool is_delivered() const { return outcome == PathUse::Delivered; }
};

/// Resolves the path from an HCA port, or port 0 of a switch, to `dlid`.
[[nodiscard]] Path resolve(const TablesView& view, PortIndex source, Lid dlid);
/// The same for data packets of a service level, which may not leave the source at all.
[[nodiscard]] Path resolve(const TablesView& view, PortIndex source, Lid dlid, ServiceLevel sl);

/// The same path for packets that are lost on link `hop`: it ends with a discard at that link's
/// egress port.
[[nodiscard]] Path discarded_at(const Path& path, std::size_t hop);

/// The same path for packets that link `hop` corrupts: the port at its far end receives them with
/// an error (PortRcvErrors) and discards them.
[[nodiscard]] Path damaged_at(const Path& path, std::size_t hop);

/// The timing of one edge of a multicast tree.
struct TimedEdge {
  LinkRate rate;
  Duration delay;
  std::uint32_t parent{kNoIndex};  // index of the edge before; kNoIndex: starts at the source
};

/// The edges that a multicast packet crosses, each once, however many members are behind it.
struct MulticastTree {
  PathUse outcome{PathUse::InvalidDlid};
  bool is_tapped{};
  verbs::Mtu mtu{verbs::Mtu::Mtu4096};
  std::uint64_t generation{};
  PortIndex source;
  PortIndex stopped_at{kNoPort};   // unless Delivered
  std::vector<PortIndex> members;  // HCA ports and ports 0 of switches reached, without the source
  std::vector<Hop> edges;          // parents before children
  std::vector<TimedEdge> timed;    // by edge; empty if no edge takes time or has faults
  std::vector<LinkFault> faults;   // by edge, then in the order of the rules
  std::vector<PortIndex> dropped_at;  // egress ports in an MFT whose link is down
};

/// Replicates a packet along the multicast forwarding tables, as switches do: to every port of the
/// mask except the ingress. Delivered even if it reaches no member. Loopback to members on the
/// sending port is left to the engine.
[[nodiscard]] MulticastTree resolve_multicast(const TablesView& view, PortIndex source, Lid mlid);
/// The same for data packets of a service level, as resolve().
[[nodiscard]] MulticastTree resolve_multicast(const TablesView& view, PortIndex source, Lid mlid,
                                              ServiceLevel sl);
/// The same in tables that are not published: the tree has no generation.
[[nodiscard]] MulticastTree resolve_multicast(const TablesBuilder& tables, PortIndex source,
                                              Lid mlid);
/// The same by the tables of Omni-Path switches.
[[nodiscard]] MulticastTree resolve_multicast(const TablesBuilder& tables, PortIndex source,
                                              ExtendedLid mlid);

/// Text like `h1:1 -> s1:1, s1:2 -> h2:1: Delivered`, for messages.
[[nodiscard]] std::string describe(const TablesView& view, const Path& path);

}  // namespace weft::fabric
