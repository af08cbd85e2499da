#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace weft::mad {

/// Lets so many through at once and one an interval on average (a leaky bucket). One thread.
class Pacer {
 public:
  /// A zero interval lets everything through.
  Pacer(Duration interval, std::uint32_t burst)
      : interval_(interval), slack_(interval * (std::max(burst, 1U) - 1)) {}

  /// When the next one may pass.
  [[nodiscard]] Instant next() const { return next_due_ - slack_; }

  [[nodiscard]] bool may_pass(Instant now) const {
    return interval_ == Duration{} || next() <= now;
  }

  /// One passes.
  void pass(Instant now) { next_due_ = std::max(next_due_, now) + interval_; }

 private:
  Duration interval_;
  Duration slack_;
  Instant next_due_;
};

}  // namespace weft::mad
