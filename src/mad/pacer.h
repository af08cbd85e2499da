#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace weft::mad {

/// Rate limiter: admits a burst, and then one event per interval on average (a leaky bucket). Not
/// thread-safe.
class Pacer {
 public:
  /// An interval of zero disables the limit.
  Pacer(Duration interval, std::uint32_t burst)
      : interval_(interval), slack_(interval * (std::max(burst, 1U) - 1)) {}

  /// When the next event is admitted.
  [[nodiscard]] Instant next() const { return next_due_ - slack_; }

  [[nodiscard]] bool may_pass(Instant now) const {
    return interval_ == Duration{} || next() <= now;
  }

  /// Accounts for one event.
  void pass(Instant now) { next_due_ = std::max(next_due_, now) + interval_; }

 private:
  Duration interval_;
  Duration slack_;
  Instant next_due_;
};

}  // namespace weft::mad
