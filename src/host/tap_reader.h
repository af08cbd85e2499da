#pragma once

// The reader's end of a capture ring (host/tap_record.h).

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "base/bytes.h"
#include "host/tap_record.h"
#include "os/shared_memory.h"
#include "ring/spsc_ring.h"

namespace weft::host {

/// Not thread-safe.
class TapReader {
 public:
  /// `memory` must be ring::ring_bytes(kTapRingCapacity) long.
  explicit TapReader(os::Mapping memory) : memory_(std::move(memory)), ring_(memory_.bytes()) {}

  /// Calls `take(const TapRecord&, ByteSpan)` for the records that are there, the oldest first.
  /// These are at most as many as the ring can hold at one time: a writer that never pauses always
  /// has more, and who reads until there is none would never get to anything else. Returns their
  /// number.
  template <class Take>
  std::size_t read(Take take) {
    std::size_t records = 0;
    for (std::size_t bytes = 0; bytes < kTapRingCapacity; ++records) {
      const auto front = ring_.front();
      if (front.state != ring::Consumer<>::State::Record) {
        break;
      }
      bytes += std::max(front.body.size(), ring::kSlotBytes);
      if (front.body.size() > sizeof(TapRecord)) {
        TapRecord tap;
        std::memcpy(&tap, front.body.data(), sizeof tap);
        take(std::as_const(tap), front.body.subspan(sizeof tap));
      }
      ring_.pop();
    }
    return records;
  }

 private:
  os::Mapping memory_;
  ring::Consumer<> ring_;
};

}  // namespace weft::host
