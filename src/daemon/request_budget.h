#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace weft::daemon {

/// Rate limit for the requests of one process (a token bucket). A process whose bucket is empty is
/// not read until it refills, so that only this process is delayed. Pure, not thread-safe.
class RequestBudget {
 public:
  /// Policy, not from the specification. Costs are counted in fractions of a regular message.
  /// RDMA-CM messages cost less, because a program needs about twenty of them per connection.
  static constexpr std::int64_t kMessage = 8;
  /// Sized for a process of a parallel job that opens lanes to all others.
  static constexpr std::int64_t kBurst = 8'192 * kMessage;
  static constexpr std::int64_t kPerSecond = 4'096 * kMessage;

  /// Charges `cost`; the balance may become negative.
  void charge(std::int64_t cost, Instant now) {
    fill(now);
    left_ -= cost;
  }
  [[nodiscard]] bool is_empty(Instant now) {
    fill(now);
    return left_ <= 0;
  }
  [[nodiscard]] bool is_full(Instant now) {
    fill(now);
    return left_ == kBurst;
  }

 private:
  void fill(Instant now) {
    constexpr std::int64_t kNanosecondsEach = 1'000'000'000 / kPerSecond;
    const std::int64_t earned = (now - filled_).nanoseconds() / kNanosecondsEach;
    left_ = std::min(kBurst, left_ + earned);
    filled_ = left_ == kBurst ? now : filled_ + Duration::nanoseconds(earned * kNanosecondsEach);
  }

  std::int64_t left_{kBurst};
  Instant filled_{};
};

}  // namespace weft::daemon
