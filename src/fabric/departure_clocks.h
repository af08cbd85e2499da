#pragma once

// The departure clocks of a fabric, one per link direction, indexed by the sending port, in memory
// that every process of the fabric may write (docs/ARCHITECTURE.md, decision 8). Only links with a
// rate use theirs. A hostile process can delay packets of others on a link by at most
// DepartureClock::kMaxBacklog, or cause MADs other than SMPs to be discarded there.
//
// Switches are assumed to cut through, as InfiniBand switches do: the bits of a packet are on
// several links at once. A packet needs its transmission time on each link of its path, and arrives
// when the last link is done with it, plus the delay of all cables; without other traffic this is
// the time on the slowest link. Every link sees the load of all flows that cross it from the time
// they are sent: no link is kept idle for a packet that still waits elsewhere.
//
// Threads: any.

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

/// The clocks of one fabric.
class DepartureClocks {
 public:
  /// Memory needed for a fabric with `ports` ports.
  [[nodiscard]] static std::size_t bytes_needed(std::size_t ports);

  /// No clocks: every link is always free.
  DepartureClocks() = default;

  /// `memory` must be aligned to 64, zero when the fabric is new, and outlive this object.
  [[nodiscard]] static DepartureClocks open(MutableByteSpan memory);

  /// Sends a packet or train of `bytes` on the wire along `path` now.
  [[nodiscard]] Transit reserve(Instant now, std::uint64_t bytes, const Path& path);

  /// Sends a packet over one cable. Nullopt, without a reservation, if it would have to wait longer
  /// than packets may (HeadOfQueueLifetime). `vl15`: for an SMP, the link's VL15 clock. SMPs wait
  /// only for each other, and all other packets wait for them (IBTA vol 1 §7.6.9: VL15 has
  /// priority). The carrier of SMPs keeps these clocks in private memory, so that no other process
  /// can delay management.
  [[nodiscard]] std::optional<Transit> reserve_cable(Instant now, std::uint64_t bytes,
                                                     PortIndex egress, LinkRate rate,
                                                     DepartureClock* vl15 = nullptr);

  /// Sends a multicast packet along `tree` now: `ends` receives the transit of each edge. The tree
  /// must have `timed` edges.
  void reserve(Instant now, std::uint64_t bytes, const MulticastTree& tree,
               std::vector<Transit>& ends);

 private:
  struct alignas(
      64) Slot {  // on separate cache lines, since different processes use different links
    DepartureClock clock;
  };

  [[nodiscard]] Transit reserve_link(Instant now, std::uint64_t bytes, PortIndex egress,
                                     LinkRate rate);

  std::span<Slot> slots_;
};

}  // namespace weft::fabric
