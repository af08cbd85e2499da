#pragma once

// Where a packet goes, found by walking the switches' own forwarding tables as programmed
// (docs/ARCHITECTURE.md, decision 1): a sender resolves a path once per routing generation and
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
#include "wire/encodings.h"

namespace weft::fabric {

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
  PathUse outcome{PathUse::InvalidDlid};
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
  [[nodiscard]] bool is_delivered() const { return outcome == PathUse::Delivered; }
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
  PathUse outcome{PathUse::InvalidDlid};
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
/// The same in tables that are not published yet: the tree has no generation.
[[nodiscard]] MulticastTree resolve_multicast(const TablesBuilder& tables, PortIndex source,
                                              Lid mlid);

/// `h1:1 -> s1:1, s1:2 -> h2:1: Delivered`, for messages.
[[nodiscard]] std::string describe(const TablesView& view, const Path& path);

}  // namespace weft::fabric
