#pragma once

// What the lanes of a process know of the links that their packets take time on
// (docs/ARCHITECTURE.md, decisions 7 and 8), or that have faults. On a fabric without any of it
// nothing here is ever used.

#include <algorithm>
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
#include "host/lane_memory.h"
#include "station/delay_line.h"
#include "station/timer_heap.h"

namespace weft::host {

class Lane;

/// Since when packets stand ready for a link that is busy. A sender that lost its CPU comes too
/// late to keep the link busy; what stood ready departs when it would have, at most so long ago.
class Readiness {
 public:
  static constexpr Duration kMaxLateness = Duration::milliseconds(20);  // policy

  /// A packet must wait for the link.
  void must_wait(Instant at) { since_ = std::min(since_, at); }
  /// Something else keeps packets from the link.
  void forget() { since_ = Instant::never(); }
  /// When the packet that is sent `at` stood ready. `is_waiting`: it comes from the queue of those
  /// who wait for room.
  [[nodiscard]] Instant of_packet(Instant at, bool is_waiting) {
    since_ = is_waiting ? std::min(since_, at) : Instant::never();
    return std::min(at, std::max(since_, at - kMaxLateness));
  }

 private:
  Instant since_{Instant::never()};
};

/// What is under way on one path of a lane. Under the out_lock of its flow.
struct LaneDelay {
  LaneDelay(Lane& owner, hca::Flow its_flow) : lane(owner), flow(its_flow) {}

  Lane& lane;
  const hca::Flow flow;
  station::DelayLine line;
  bool is_due_somewhere{};  // it stands in LiveLinks::due
  bool is_blocked{};        // what has arrived finds no room in the ring
  Instant blocked_since{Instant::never()};
  Readiness readiness;
};

struct LiveLinks {
  fabric::DepartureClocks clocks;
  fabric::FaultCounters faults;
  station::TimerHeap<LaneDelay> due;
  std::atomic<std::uint32_t> delayed{0};  // packets under way, of all lanes
  std::atomic<std::uint32_t> blocked{0};  // lines whose packets find no room
  TimeScale time_scale;

  /// Where packets meet all of it.
  [[nodiscard]] fabric::LinkCrossing crossing() { return {clocks, faults}; }

  [[nodiscard]] bool has_any() const { return delayed.load(std::memory_order_relaxed) != 0; }
};

/// Writes the whole record of a packet or train to a line, which commit() then keeps; empty without
/// room.
[[nodiscard]] MutableByteSpan write_record(station::DelayLine& line,
                                           const hca::PacketHeader& header,
                                           std::span<const ByteSpan> gather);

/// How far a sender is ahead of its slowest link, and how long a train occupies one. Policy: enough
/// that a sender who sleeps wakes before the link is idle, and little enough that others who share
/// the link get their part and wait no longer than behind a few packets.
inline constexpr Duration kAheadOfLink = Duration::microseconds(200);
inline constexpr Duration kLongestTrain = Duration::microseconds(100);

/// Bytes that a link carries in that time; without a rate, any number.
[[nodiscard]] constexpr std::uint64_t bytes_in(Duration time, std::uint32_t rate_mbps) {
  return static_cast<std::uint64_t>(time.microseconds()) * rate_mbps / 8;
}

/// Bytes on the wire that may wait for their departure on a path of this rate.
[[nodiscard]] constexpr std::uint64_t max_ahead(std::uint32_t rate_mbps) {
  return std::max<std::uint64_t>(kMaxTrainBytes, bytes_in(kAheadOfLink, rate_mbps));
}

/// The longest train on such a path, in payload bytes.
[[nodiscard]] constexpr std::uint32_t longest_train(std::uint32_t rate_mbps) {
  return rate_mbps == 0 ? kMaxTrainBytes
                        : static_cast<std::uint32_t>(std::min<std::uint64_t>(
                              kMaxTrainBytes, bytes_in(kLongestTrain, rate_mbps)));
}

}  // namespace weft::host
