#include "fabric/link_model.h"

#include <algorithm>

namespace weft::fabric {

Duration LinkRate::duration(std::uint64_t bytes) const {
  if (megabits_per_second == 0) {
    return {};
  }
  const std::uint64_t bits_times_thousand = bytes * 8 * 1000;  // ns = bits * 1000 / (Mb/s)
  return Duration::nanoseconds(static_cast<std::int64_t>(
      (bits_times_thousand + megabits_per_second - 1) / megabits_per_second));
}

Transit transit(Instant now, Instant free_at, std::uint64_t bytes, LinkRate rate, Duration delay) {
  Transit result;
  result.starts = std::max(now, free_at);
  result.departs = result.starts + rate.duration(bytes);
  result.arrives = result.departs + delay;
  return result;
}

Transit DepartureClock::reserve(Instant now, std::uint64_t bytes, LinkRate rate, Duration delay) {
  if (rate.megabits_per_second == 0) {
    return transit(now, now, bytes, rate, delay);
  }
  std::int64_t seen = free_at_ns_.load(std::memory_order_relaxed);
  while (true) {
    const Transit result = transit(now, free_at(seen, now), bytes, rate, delay);
    if (free_at_ns_.compare_exchange_weak(seen, result.departs.since_start().nanoseconds(),
                                          std::memory_order_relaxed)) {
      return result;
    }
  }
}

std::optional<Transit> DepartureClock::reserve_within(Instant now, std::uint64_t bytes,
                                                      LinkRate rate, HeadOfQueueLifetime life) {
  std::int64_t seen = free_at_ns_.load(std::memory_order_relaxed);
  while (true) {
    const Transit result = transit(now, free_at(seen, now), bytes, rate, Duration{});
    if (life.must_discard(now, result.starts)) {
      return std::nullopt;
    }
    if (free_at_ns_.compare_exchange_weak(seen, result.departs.since_start().nanoseconds(),
                                          std::memory_order_relaxed)) {
      return result;
    }
  }
}

/// Ignores an implausible time, which only a hostile process writes.
Instant DepartureClock::free_at(std::int64_t seen, Instant now) const {
  const Instant claimed{Duration::nanoseconds(seen)};
  return claimed > now + kMaxBacklog ? now : claimed;
}

Instant HeadOfQueueLifetime::deadline(Instant reached_head) const {
  if (is_infinite()) {
    return Instant::never();
  }
  return reached_head + TimeoutExponent{exponent_}.duration();
}

bool HeadOfQueueLifetime::must_discard(Instant reached_head, Instant now) const {
  return !is_infinite() && now >= deadline(reached_head);
}

}  // namespace weft::fabric
