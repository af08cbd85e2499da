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

/// The captures of this process's packets. Lossless: a sender first obtains room in each of them.
/// Any thread.
class TapSet {
 public:
  /// `memory` must be ring::ring_bytes(kTapRingCapacity) long.
  void open(std::uint32_t capture, std::uint32_t port, os::Mapping memory);
  /// Ends a capture.
  void close(std::uint32_t capture);

  /// Calls `act`, which may call capture_now(), once every capture of a port in `hops` has room for
  /// records of `bytes` in total. False, without effect, if one has not. So `act` can determine how
  /// far each packet gets.
  template <class Act>
  [[nodiscard]] bool with_room(std::span<const fabric::Hop> hops, std::size_t bytes, Act act) {
    const std::lock_guard guard{lock_};
    if (!reserve(hops, bytes)) {
      return false;
    }
    act();
    return true;
  }
  /// The part of that room that one packet needs.
  [[nodiscard]] static std::size_t bytes_for(std::size_t record_bytes) {
    return sizeof(TapRecord) + record_bytes + 2 * ring::kSlotBytes;  // its header, and rounding up
  }
  /// Captures one packet at the captured ports in `hops`, in room that with_room() obtained.
  void capture_now(std::span<const fabric::Hop> hops, ByteSpan record_header,
                   std::span<const ByteSpan> payload, TapFormat format = TapFormat::InfiniBand);

  /// Captures one packet at all captured ports in `hops`; false, without effect, if one has no
  /// room.
  [[nodiscard]] bool show(std::span<const fabric::Hop> hops, ByteSpan record_header,
                          std::span<const ByteSpan> payload,
                          TapFormat format = TapFormat::InfiniBand);

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
  std::vector<Write> writes_;  // scratch space of one call, kept to avoid allocations
};

}  // namespace weft::host
