#pragma once

// Properties of links (docs/ARCHITECTURE.md, decision 8): rate, delay and head-of-queue lifetime;
// for faults see fabric/faults.h. Arithmetic only: the driver stores delayed packets and the shared
// clocks.

#include <atomic>
#include <cstdint>
#include <optional>

#include "base/time.h"

namespace weft::fabric {

struct LinkRate {
  std::uint32_t megabits_per_second{};  // 0: no limit

  /// Transmission time of `bytes`, rounded up to a nanosecond.
  [[nodiscard]] Duration duration(std::uint64_t bytes) const;
};

/// Times of a packet on a link or path.
struct Transit {
  Instant starts;   // first bit sent
  Instant departs;  // last bit sent; the link is free again
  Instant arrives;  // last bit received
};

/// `free_at`: when the link has sent everything before.
[[nodiscard]] Transit transit(Instant now, Instant free_at, std::uint64_t bytes, LinkRate rate,
                              Duration delay);

/// PortInfo HOQLife (IBTA vol 1 §14.2.5.6, §18.2.5.4): the longest time at the head of a queue,
/// 4.096 us times 2^n; no limit from 20 on.
class HeadOfQueueLifetime {
 public:
  /// `exponent` is HOQLife.
  constexpr explicit HeadOfQueueLifetime(std::uint8_t exponent = kDefault) : exponent_(exponent) {}

  [[nodiscard]] constexpr bool is_infinite() const { return exponent_ >= 20; }
  /// When a packet that reached the head of its queue at `reached_head` must be discarded.
  [[nodiscard]] Instant deadline(Instant reached_head) const;
  [[nodiscard]] bool must_discard(Instant reached_head, Instant now) const;

 private:
  static constexpr std::uint8_t kDefault = 18;  // 1.07 s, what OpenSM programs for HCA links
  std::uint8_t exponent_;
};

/// The departure clock of one link direction, shared by all processes that send on it (an atomic in
/// shared memory, initially zero). A hostile value can delay packets by at most `kMaxBacklog`: a
/// later time is ignored. Any thread.
class DepartureClock {
 public:
  static constexpr Duration kMaxBacklog = Duration::seconds(10);  // policy

  /// Occupies the link for a packet of `bytes`, after everything reserved before; returns its
  /// times.
  [[nodiscard]] Transit reserve(Instant now, std::uint64_t bytes, LinkRate rate, Duration delay);
  /// The same without a delay. Nullopt, without a reservation, if the packet would have to wait
  /// longer than `life`.
  [[nodiscard]] std::optional<Transit> reserve_within(Instant now, std::uint64_t bytes,
                                                      LinkRate rate, HeadOfQueueLifetime life);

 private:
  [[nodiscard]] Instant free_at(std::int64_t seen, Instant now) const;

  std::atomic<std::int64_t> free_at_ns_{};
};

}  // namespace weft::fabric
