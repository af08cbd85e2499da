#pragma once

// The links of a live fabric, as the lanes of a process see them: links on which packets take time
// (docs/ARCHITECTURE.md, decisions 7 and 8), and rules of faults. Unused on a fabric that has
// neither.

#include <atomic>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/time.h"
#include "fabric/departure_clocks.h"
#include "fabric/faults.h"
#include "fabric/link_crossing.h"
#include "fabric/path.h"
#include "hca/packet.h"
#include "station/delay_line.h"
#include "station/link_pace.h"
#include "station/timer_heap.h"

namespace weft::host {

class Lane;

/// The packets under way on one path of a lane. Protected by the out_lock of its flow.
struct LaneDelay {
  LaneDelay(Lane& owner, hca::Flow its_flow) : lane(owner), flow(its_flow) {}

  Lane& lane;
  const hca::Flow flow;
  station::DelayLine line;
  bool is_due_somewhere{};  // it is in LiveLinks::due
  bool is_blocked{};        // what has arrived finds no space in the ring
  Instant blocked_since{Instant::never()};
  station::Readiness readiness;
};

/// Clocks and counters are memory that all processes of the fabric share. Each member has its own
/// lock or is atomic; any thread.
struct LiveLinks {
  fabric::DepartureClocks clocks;
  fabric::FaultCounters faults;
  station::TimerHeap<LaneDelay> due;      // when something departs or arrives
  std::atomic<std::uint32_t> delayed{0};  // packets under way, of all lanes
  std::atomic<std::uint32_t> blocked{0};  // delay lines whose packets find no space in their ring
  TimeScale time_scale;

  /// Applies rules and clocks to a packet.
  [[nodiscard]] fabric::LinkCrossing crossing() { return {clocks, faults}; }

  [[nodiscard]] bool has_any() const { return delayed.load(std::memory_order_relaxed) != 0; }
};

/// Writes the record of a packet or train to a delay line; its commit() keeps it. Empty if there is
/// no space.
[[nodiscard]] MutableByteSpan write_record(station::DelayLine& line,
                                           const hca::PacketHeader& header,
                                           std::span<const ByteSpan> gather);

}  // namespace weft::host
