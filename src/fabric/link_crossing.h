#pragma once

// The one place where links affect a packet, whoever sent it: fault rules, transmission time, how
// it is counted where it ends, and how far captures see it (docs/ARCHITECTURE.md, decision 8).
// Programs cross the whole path of a data packet at once, the daemon crosses cable by cable with a
// MAD or datagram, and both cross a multicast tree edge by edge. They share clocks and rule counts
// in memory, so that they queue behind each other and "every third" holds across them.
//
// Threads: any; arguments belong to the caller.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/time.h"
#include "fabric/departure_clocks.h"
#include "fabric/faults.h"
#include "fabric/link_model.h"
#include "fabric/path.h"
#include "fabric/path_end.h"
#include "fabric/walk.h"

namespace weft::fabric {

/// The properties of a packet that matter to links.
struct CrossingPacket {
  FaultSubject subject;
  std::uint64_t wire_bytes{};  // LRH to ICRC
  Instant ready;               // since when it has been ready to leave
  DepartureClock* vl15{};      // for an SMP, the VL15 clock (DepartureClocks::reserve_cable)
};

/// One direction of a link.
struct Cable {
  Hop hop;
  LinkRate rate;
  Duration delay;
  std::span<const LinkFault> rules;  // all with hop 0
};

/// One copy of a packet at the end of its path, or where it was lost.
struct CrossedCopy {
  PathEnd end{PathEnd::Delivered};  // how it is counted
  PortIndex counted_at{kNoPort};    // at which port, unless delivered
  std::uint32_t hop{};              // the last link that it reached
  Duration held_back;               // by rules; not included in `transit`
  Transit transit;

  [[nodiscard]] bool is_delivered() const { return end == PathEnd::Delivered; }

  /// The part of `hops` on which captures see the packet, built in `room`. A port that receives it
  /// with an error discards it before it is captured, so the link on which it ends has no ingress.
  [[nodiscard]] std::span<const Hop> seen(std::span<const Hop> hops,
                                          std::array<Hop, kMaxHops>& room) const;
};

/// A multicast packet at the end of one edge of its tree.
struct EdgeCrossing {
  std::uint32_t arrived{};  // copies; 0 if they were lost before
  std::uint32_t lost{};     // on this edge
  std::uint32_t damaged{};
  bool is_too_long{};  // for this edge's MTU
  Duration held_back;  // the longest of the copies

  [[nodiscard]] bool is_crossed() const { return arrived + damaged != 0; }
};

/// Applies links to packets, with the shared clocks and rule counts of a fabric.
class LinkCrossing {
 public:
  LinkCrossing(DepartureClocks& clocks, FaultCounters& faults) : clocks_(clocks), faults_(faults) {}

  /// Crosses a path. Calls `visit` for each copy: first the packet itself, then the duplicates that
  /// rules made. A lost copy takes time on all links of the path, including those behind the loss.
  template <class Visit>
  void cross(const Path& path, const CrossingPacket& packet, Visit visit) {
    const FaultEffects effects = fabric::cross(path.faults, packet.subject, faults_);
    for (const FaultEffect& effect : effects.all()) {
      CrossedCopy copy = copy_of(effect, path.hops);
      copy.transit = clocks_.reserve(packet.ready, packet.wire_bytes, path);
      visit(copy);
    }
  }

  /// Crosses a single cable. A packet that would have to wait longer than allowed (IBTA vol 1
  /// §18.2.5.4) is discarded, since this sender is not subject to back-pressure.
  template <class Visit>
  void cross(const Cable& cable, const CrossingPacket& packet, Visit visit) {
    const FaultEffects effects = fabric::cross(cable.rules, packet.subject, faults_);
    for (const FaultEffect& effect : effects.all()) {
      CrossedCopy copy = copy_of(effect, {&cable.hop, 1});
      const auto transit = clocks_.reserve_cable(packet.ready, packet.wire_bytes, cable.hop.egress,
                                                 cable.rate, packet.vl15);
      if (transit) {
        copy.transit = *transit;
        copy.transit.arrives = transit->departs + cable.delay;
      } else {
        copy.end = PathEnd::HeadOfQueueLimit;
        copy.counted_at = cable.hop.egress;
      }
      visit(copy);
    }
  }

  /// Crosses a multicast tree, from the root on; a copy crosses an edge if it reached the start of
  /// the edge. `passes` says whether the packet fits an edge's MTU. Takes no time:
  /// DepartureClocks::reserve() does that.
  template <class Passes>
  void cross(const MulticastTree& tree, const FaultSubject& packet, Passes passes,
             std::vector<EdgeCrossing>& edges) {
    edges.clear();
    std::span<const LinkFault> rest = tree.faults;
    for (std::uint32_t edge = 0; edge < tree.edges.size(); ++edge) {
      const std::uint32_t parent = tree.timed.empty() ? kNoIndex : tree.timed[edge].parent;
      const EdgeCrossing before =
          parent < edge ? edges[parent] : EdgeCrossing{.arrived = 1, .held_back = {}};
      const std::span<const LinkFault> here = rules_of(edge, rest);
      EdgeCrossing& crossing = edges.emplace_back();
      if (before.arrived != 0 && !passes(edge)) {
        crossing.is_too_long = true;
      } else {
        cross_edge(here, packet, before, crossing);
      }
    }
  }
  /// The same for a packet that fits every edge's MTU.
  void cross(const MulticastTree& tree, const FaultSubject& packet,
             std::vector<EdgeCrossing>& edges) {
    cross(tree, packet, [](std::uint32_t) { return true; }, edges);
  }

  [[nodiscard]] DepartureClocks& clocks() { return clocks_; }

 private:
  [[nodiscard]] static CrossedCopy copy_of(const FaultEffect& effect, std::span<const Hop> hops);
  [[nodiscard]] static std::span<const LinkFault> rules_of(std::uint32_t edge,
                                                           std::span<const LinkFault>& rest);
  void cross_edge(std::span<const LinkFault> rules, const FaultSubject& packet,
                  const EdgeCrossing& before, EdgeCrossing& crossing);

  DepartureClocks& clocks_;
  FaultCounters& faults_;
};

}  // namespace weft::fabric
