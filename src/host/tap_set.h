#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/lock.h"
#include "base/result.h"
#include "base/time.h"
#include "fabric/path.h"
#include "host/tap_record.h"
#include "os/shared_memory.h"
#include "ring/spsc_ring.h"

namespace weft::host {

/// The captures of this process's packets. A sender first obtains room in each of them, so that a
/// capture whose reader reads is complete. Any thread.
class TapSet {
 public:
  /// Policy: how long senders wait for a reader. Then it is taken to have stopped, and packets pass
  /// unseen until it reads again: TapRecord::missed says how many. A request and then its answer
  /// may wait for so long, and a QP with short timeouts ends its retries in 0.5 s (perftest's).
  static constexpr Duration kPatience = Duration::milliseconds(150);
  /// Of a set whose owner decides itself how long to wait.
  static constexpr Duration kEndless = Duration::seconds(1'000'000'000);

  explicit TapSet(Duration patience = kPatience) : patience_(patience) {}

  /// `memory` must be ring::ring_bytes(kTapRingCapacity) long.
  void open(std::uint32_t capture, std::uint32_t port, os::Mapping memory);
  /// Ends a capture.
  void close(std::uint32_t capture);
  /// No capture is open. What is sent after open() has returned may be seen.
  [[nodiscard]] bool is_empty() const {
    const std::lock_guard guard{lock_};
    return taps_.empty();
  }

  /// Calls `act`, which may call capture_now(), once every capture of a port in `hops` has room for
  /// records of `bytes` in total, or a reader that has stopped. False, without effect, if one has
  /// neither. So `act` can determine how far each packet gets.
  template <class Act>
  [[nodiscard]] bool with_room(std::span<const fabric::Hop> hops, std::size_t bytes, Act act) {
    const std::lock_guard guard{lock_};
    if (!find_room(hops, bytes)) {
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
  /// room for it yet.
  [[nodiscard]] bool show(std::span<const fabric::Hop> hops, ByteSpan record_header,
                          std::span<const ByteSpan> payload,
                          TapFormat format = TapFormat::InfiniBand);

 private:
  struct Tap {
    std::uint32_t capture{};
    std::uint32_t port{};
    os::Mapping memory;
    ring::Producer<> producer;
    Instant full_since{Instant::never()};  // no sender has found room since
    bool has_stopped{};                    // the reader, as it seems
    std::uint32_t missed{};                // since the last record
  };

  [[nodiscard]] static std::optional<TapDirection> direction_at(const Tap& tap,
                                                                std::span<const fabric::Hop> hops);
  [[nodiscard]] bool find_room(std::span<const fabric::Hop> hops, std::size_t bytes);
  [[nodiscard]] bool has_room(Tap& tap, std::size_t bytes) const;

  Duration patience_;
  mutable PolicyLock lock_{LockPolicy::Spin};
  std::vector<std::unique_ptr<Tap>> taps_;
};

}  // namespace weft::host
