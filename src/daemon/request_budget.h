#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace weft::daemon {

/// How much one process may ask of the daemon: a bucket that fills with time. A process that finds
/// it empty is not read until there is something in it again, so that it waits and nobody else
/// does. Pure.
class RequestBudget {
 public:
  /// Policy. Costs are in parts of a message's; those of RDMA-CM cost less, since a program that
  /// makes thousands of connections needs some twenty for each.
  static constexpr std::int64_t kMessage = 8;
  /// A burst is a parallel job's program that opens a lane to everybody.
  static constexpr std::int64_t kBurst = 8'192 * kMessage;
  static constexpr std::int64_t kPerSecond = 4'096 * kMessage;

  /// Spends `cost`, which may leave a debt.
  void spend(std::int64_t cost, Instant now) {
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
