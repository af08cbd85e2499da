#pragma once

#include <atomic>
#include <cstdint>
#include <ctime>

#include "base/time.h"

namespace weft::os {

/// The live driver's clock: CLOCK_MONOTONIC, the same for all processes of a machine.
[[nodiscard]] inline Instant now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return Instant{Duration::seconds(time.tv_sec) + Duration::nanoseconds(time.tv_nsec)};
}

/// now(), for who asks often: not older than some microseconds, and cheap. Any thread.
class RecentClock {
 public:
  [[nodiscard]] Instant read() {
#if defined(__x86_64__)
    // The order of the two stores, and of the two loads: a fresh count never goes with an old time.
    const std::uint64_t count = __builtin_ia32_rdtsc();
    if (count - counted_.load(std::memory_order_acquire) < kFresh) {
      return Instant{Duration::nanoseconds(ns_.load(std::memory_order_relaxed))};
    }
    const Instant at = now();
    ns_.store(at.since_start().nanoseconds(), std::memory_order_relaxed);
    counted_.store(count, std::memory_order_release);
    return at;
#else
    return now();
#endif
  }

  /// When it was read last, of whatever age: for who must name a time and needs none.
  [[nodiscard]] Instant newest() const {
    return Instant{Duration::nanoseconds(ns_.load(std::memory_order_relaxed))};
  }

 private:
  static constexpr std::uint64_t kFresh = 8'192;  // cycles, 2 to 4 us; policy
  std::atomic<std::uint64_t> counted_{};
  std::atomic<std::int64_t> ns_{};
};

/// Time of day since 1970, for captures.
[[nodiscard]] inline Duration time_of_day() {
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  return Duration::seconds(time.tv_sec) + Duration::nanoseconds(time.tv_nsec);
}

}  // namespace weft::os
