#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/lock.h"
#include "base/result.h"
#include "fabric/path.h"
#include "host/shared_memory.h"
#include "host/tap_record.h"
#include "ring/spsc_ring.h"

namespace weft::host {

/// The captures that look at this process's packets. Lossless: who sends asks for room in each
/// first. Any thread.
class TapSet {
 public:
  /// `memory` is ring::ring_bytes(kTapRingCapacity) long.
  void open(std::uint32_t capture, std::uint32_t port, Mapping memory);
  void close(std::uint32_t capture);

  /// Shows one packet to every capture of a port among `hops`: all of them, or (no room) none.
  [[nodiscard]] bool show(std::span<const fabric::Hop> hops, ByteSpan record_header,
                          std::span<const ByteSpan> payload);

 private:
  struct Tap {
    std::uint32_t capture{};
    std::uint32_t port{};
    Mapping memory;
    ring::Producer<> producer;
  };
  struct Write {
    Tap* tap{};
    TapDirection direction{};
    MutableByteSpan room;
  };

  PolicyLock lock_{LockPolicy::Spin};
  std::vector<std::unique_ptr<Tap>> taps_;
  std::vector<Write> writes_;  // of one call; kept so that showing allocates nothing
};

}  // namespace weft::host
