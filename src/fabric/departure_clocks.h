#pragma once

// The departure clocks of a whole fabric: one for each directed link, named by the port that sends
// on it, in memory that every process of the fabric may write (docs/ARCHITECTURE.md, decision 8).
// Only links with a rate use theirs; a liar can delay what others send over a link by at most
// DepartureClock::kMaxBacklog, or have MADs but SMPs discarded there.
//
// Switches are taken to cut through, as those of InfiniBand do: a packet's bits are on several
// links at once. So a packet needs its time on each link of its way, and arrives when the last of
// them is done with it, plus the delay of all cables: alone, the time on the slowest link. Every
// link sees the load of all flows that cross it, counted from when they are sent: a link never
// stands idle because a packet that waits elsewhere will need it.
//
// Threading: any.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/time.h"
#include "fabric/link_model.h"
#include "fabric/path.h"

namespace weft::fabric {

class DepartureClocks {
 public:
  /// For a fabric with so many ports.
  [[nodiscard]] static std::size_t bytes_needed(std::size_t ports);

  /// No clocks: every link is free at any time.
  DepartureClocks() = default;

  /// `memory` is aligned to 64, zero when the fabric is new, and outlives this.
  [[nodiscard]] static DepartureClocks open(MutableByteSpan memory);

  /// A packet or train of `bytes` on the wire goes along `path` now.
  [[nodiscard]] Transit reserve(Instant now, std::uint64_t bytes, const Path& path);

  /// A packet goes over one cable. None, and nothing is reserved, if it would have to wait there
  /// for longer than packets may (HeadOfQueueLifetime). `vl15`: the link's clock of SMPs, if it is
  /// one. They wait for each other only, and all else on the link for them (IBTA vol 1 §7.6.9: VL15
  /// goes first). Who carries SMPs keeps these clocks to itself, so that no liar delays management.
  [[nodiscard]] std::optional<Transit> reserve_cable(Instant now, std::uint64_t bytes,
                                                     PortIndex egress, LinkRate rate,
                                                     DepartureClock* vl15 = nullptr);

  /// A multicast packet goes along `tree` now: `ends` says when it is at the end of each edge. The
  /// tree's edges are timed.
  void reserve(Instant now, std::uint64_t bytes, const MulticastTree& tree,
               std::vector<Transit>& ends);

 private:
  struct alignas(64) Slot {  // apart, since different processes send on different links
    DepartureClock clock;
  };

  [[nodiscard]] Transit reserve_link(Instant now, std::uint64_t bytes, PortIndex egress,
                                     LinkRate rate);

  std::span<Slot> slots_;
};

}  // namespace weft::fabric
