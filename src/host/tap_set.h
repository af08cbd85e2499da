#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/lock.h"
#include "base/result.h"
#include "fabric/path.h"
#include "host/tap_record.h"
#include "os/shared_memory.h"
#include "ring/spsc_ring.h"

namespace weft::host {

/// The captures that look at this process's packets. Lossless: who sends asks for room in each
/// first. Any thread.
class TapSet {
 public:
  /// `memory` is ring::ring_bytes(kTapRingCapacity) long.
  void open(std::uint32_t capture, std::uint32_t port, os::Mapping memory);
  void close(std::uint32_t capture);

  /// Calls `act`, which shows packets of a path by capture_now(), once every capture of a port
  /// among `hops` has room for records of `bytes` together; false, and nothing is done, if one has
  /// not. So it may be found out there how far each packet comes.
  template <class Act>
  [[nodiscard]] bool with_room(std::span<const fabric::Hop> hops, std::size_t bytes, Act act) {
    const std::lock_guard guard{lock_};
    if (!reserve(hops, bytes)) {
      return false;
    }
    act();
    return true;
  }
  /// What a packet needs of that room.
  [[nodiscard]] static std::size_t bytes_for(std::size_t record_bytes) {
    return sizeof(TapRecord) + record_bytes + 2 * ring::kSlotBytes;  // its head, and rounding up
  }
  void capture_now(std::span<const fabric::Hop> hops, ByteSpan record_header,
                   std::span<const ByteSpan> payload);

  /// Shows one packet to every capture of a port among `hops`: all of them, or (no room) none.
  [[nodiscard]] bool show(std::span<const fabric::Hop> hops, ByteSpan record_header,
                          std::span<const ByteSpan> payload);

 private:
  struct Tap {
    std::uint32_t capture{};
    std::uint32_t port{};
    os::Mapping memory;
    ring::Producer<> producer;
  };
  struct Write {
    Tap* tap{};
    TapDirection direction{};
    MutableByteSpan room;
  };

  [[nodiscard]] bool reserve(std::span<const fabric::Hop> hops, std::size_t bytes);

  PolicyLock lock_{LockPolicy::Spin};
  std::vector<std::unique_ptr<Tap>> taps_;
  std::vector<Write> writes_;  // of one call; kept so that showing allocates nothing
};

}  // namespace weft::host
