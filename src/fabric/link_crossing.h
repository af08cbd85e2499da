#pragma once

// The one place where a packet meets what its links do to it, whoever sent it: rules of faults,
// link time, what it counts as where it ends, and how far captures see it (docs/ARCHITECTURE.md,
// decision 8). Programs cross the whole path of a data packet at once, the daemon crosses cable by
// cable with a MAD or a datagram, and both cross the tree of a multicast packet edge by edge.
// Clocks and counts of rules lie in memory that all of them share, so that they wait for each
// other, and "every third" holds over all of them.
//
// Threading: any; what is handed in belongs to the caller.

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

/// What links ask of a packet.
struct CrossingPacket {
  FaultSubject subject;
  std::uint64_t wire_bytes{};  // LRH to ICRC
  Instant ready;               // since when it stands ready to leave
  DepartureClock* vl15{};      // of an SMP: the clock of VL15 (DepartureClocks::reserve_cable)
};

/// A link in one direction.
struct Cable {
  Hop hop;
  LinkRate rate;
  Duration delay;
  std::span<const LinkFault> rules;  // all on hop 0
};

/// One copy of a packet at the end of its links, or where it was lost.
struct CrossedCopy {
  PathEnd end{PathEnd::Delivered};  // what it counts as
  PortIndex counted_at{kNoPort};    // and at which port, if it is not delivered
  std::uint32_t hop{};              // the last link that it came to
  Duration held_back;               // by rules; not in `transit`
  Transit transit;

  [[nodiscard]] bool is_delivered() const { return end == PathEnd::Delivered; }

  /// The part of `hops` that captures see it cross, made in `room`. Who receives it in error
  /// discards it unseen, so the link on which it ends has no ingress.
  [[nodiscard]] std::span<const Hop> seen(std::span<const Hop> hops,
                                          std::array<Hop, kMaxHops>& room) const;
};

/// A multicast packet at the end of one edge of its tree.
struct EdgeCrossing {
  std::uint32_t arrived{};  // copies; none if they were lost before
  std::uint32_t lost{};     // on this very edge
  std::uint32_t damaged{};
  bool is_too_long{};  // for this very edge
  Duration held_back;  // the longest of the copies

  [[nodiscard]] bool is_crossed() const { return arrived + damaged != 0; }
};

class LinkCrossing {
 public:
  LinkCrossing(DepartureClocks& clocks, FaultCounters& faults) : clocks_(clocks), faults_(faults) {}

  /// `visit` is given each copy: first the packet itself, then duplicates that rules made. A copy
  /// that is lost took time on the links before, and is taken to do so on those behind.
  template <class Visit>
  void cross(const Path& path, const CrossingPacket& packet, Visit visit) {
    const FaultEffects effects = fabric::cross(path.faults, packet.subject, faults_);
    for (const FaultEffect& effect : effects.all()) {
      CrossedCopy copy = copy_of(effect, path.hops);
      copy.transit = clocks_.reserve(packet.ready, packet.wire_bytes, path);
      visit(copy);
    }
  }

  /// The same for a single cable. What would have to wait there for longer than packets may (IBTA
  /// vol 1 §18.2.5.4) is discarded: who sends here is not told to wait.
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

  /// What becomes of a multicast packet at each edge of its tree, from the root on: an edge is
  /// crossed by what came to its begin. `passes` says of an edge whether the packet is short enough
  /// for it. Takes no time; DepartureClocks::reserve() does.
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
