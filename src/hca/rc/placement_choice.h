#pragma once

#include <cstdint>

#include "base/time.h"

namespace weft::hca {

/// Whether a WRITE or READ that is alone in its send queue is placed or sent
/// (PlacementPolicy::WhereQuicker). Packets are quick where a thread of the peer spins on a CPU of
/// its own, and ten times slower than a copy where it must get one first: so the packets of a lone
/// message are timed, and decide about the next ones. A program that starts its next message as
/// soon as one is placed does not wait for the peer; such a stream is packets, which go on while
/// the program does.
class PlacementChoice {
 public:
  /// For a message that starts alone.
  [[nodiscard]] bool places(Instant now) {
    if (!packets_are_slow_ || now - placed_until_ < least_gap_) {
      return false;
    }
    return ++choices_ % kTimeEvery != 0;
  }

  /// A message was placed from `start` to `end`.
  void count_placed(Instant start, Instant end) {
    placed_until_ = end;
    least_gap_ = (end - start) / 2;
  }

  /// The lone message starts, as packets.
  void begin_timing(Instant now, std::uint32_t bytes, bool is_read) {
    started_ = now;
    // The bytes of a WRITE are there half-way before it completes.
    limit_ = copy_time(bytes) * (is_read ? 1 : 2);
  }
  /// It is not alone any more: how long it takes says nothing.
  void stop_timing() { started_ = Instant::never(); }
  [[nodiscard]] bool is_timing() const { return started_ != Instant::never(); }
  /// It is complete.
  void end_timing(Instant now) {
    packets_are_slow_ = now - started_ > limit_;
    stop_timing();
  }

 private:
  /// Policy: one message in so many is timed again, in case the CPUs have less to do now.
  static constexpr std::uint32_t kTimeEvery = 512;

  /// Measured: a system call, then 10 GB/s. Policy.
  [[nodiscard]] static constexpr Duration copy_time(std::uint32_t bytes) {
    return Duration::nanoseconds(1'500 + std::int64_t{bytes} / 10);
  }

  bool packets_are_slow_{};
  std::uint32_t choices_{};
  Duration least_gap_{};  // between the end of a placed message and the next one, unless a stream
  Duration limit_{};
  Instant placed_until_{};
  Instant started_{Instant::never()};
};

}  // namespace weft::hca
