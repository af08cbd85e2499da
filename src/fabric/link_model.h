#pragma once

// What a link does to packets besides carrying them (docs/ARCHITECTURE.md, decision 8): rate, delay
// and the head-of-queue lifetime; faults are in fabric/faults.h. Arithmetic only: who keeps a
// delayed packet, and where the shared clock lies, is the driver's business.

#include <atomic>
#include <cstdint>
#include <optional>

#include "base/time.h"

namespace weft::fabric {

struct LinkRate {
  std::uint32_t megabits_per_second{};  // 0: as fast as memory

  /// Time on the wire of `bytes`, rounded up to a nanosecond.
  [[nodiscard]] Duration duration(std::uint64_t bytes) const;
};

/// When a packet leaves and arrives.
struct Transit {
  Instant starts;   // its first bit leaves
  Instant departs;  // its last bit has left: the link is free again
  Instant arrives;  // its last bit is there
};

/// `free_at`: when the link is done with what was sent before.
[[nodiscard]] Transit transit(Instant now, Instant free_at, std::uint64_t bytes, LinkRate rate,
                              Duration delay);

/// PortInfo HOQLife (IBTA vol 1 §14.2.5.6, §18.2.5.4): how long a packet may stand at the head of a
/// queue; 4.096 us times 2^n, 20 and above without limit.
class HeadOfQueueLifetime {
 public:
  constexpr explicit HeadOfQueueLifetime(std::uint8_t exponent = kDefault) : exponent_(exponent) {}

  [[nodiscard]] constexpr bool is_infinite() const { return exponent_ >= 20; }
  [[nodiscard]] Instant deadline(Instant reached_head) const;
  [[nodiscard]] bool must_discard(Instant reached_head, Instant now) const;

 private:
  static constexpr std::uint8_t kDefault = 18;  // 1.07 s, what OpenSM programs for HCA links
  std::uint8_t exponent_;
};

/// The departure clock of one link direction, shared by every process that sends on it (plain
/// atomic in shared memory, zero at first). A hostile value can delay packets of that link by at
/// most `kMaxBacklog`; later is taken for never and ignored.
class DepartureClock {
 public:
  static constexpr Duration kMaxBacklog = Duration::seconds(10);  // policy

  [[nodiscard]] Transit reserve(Instant now, std::uint64_t bytes, LinkRate rate, Duration delay);
  /// The same without a delay; none, and nothing is reserved, if the packet would have to wait for
  /// longer than `life`.
  [[nodiscard]] std::optional<Transit> reserve_within(Instant now, std::uint64_t bytes,
                                                      LinkRate rate, HeadOfQueueLifetime life);

 private:
  [[nodiscard]] Instant free_at(std::int64_t seen, Instant now) const;

  std::atomic<std::int64_t> free_at_ns_{};
};

}  // namespace weft::fabric
