#pragma once

#include <compare>
#include <cstdint>
#include <limits>

#include "base/assert.h"

namespace weft {

/// A time span in nanoseconds, real or virtual depending on the driver.
class Duration {
 public:
  constexpr Duration() = default;

  static constexpr Duration nanoseconds(std::int64_t count) { return Duration{count}; }
  static constexpr Duration microseconds(std::int64_t count) { return Duration{count * 1'000}; }
  static constexpr Duration milliseconds(std::int64_t count) { return Duration{count * 1'000'000}; }
  static constexpr Duration seconds(std::int64_t count) { return Duration{count * 1'000'000'000}; }

  [[nodiscard]] constexpr std::int64_t nanoseconds() const { return ns_; }
  [[nodiscard]] constexpr std::int64_t microseconds() const { return ns_ / 1'000; }
  [[nodiscard]] constexpr std::int64_t milliseconds() const { return ns_ / 1'000'000; }

  friend constexpr Duration operator+(Duration a, Duration b) { return Duration{a.ns_ + b.ns_}; }
  friend constexpr Duration operator-(Duration a, Duration b) { return Duration{a.ns_ - b.ns_}; }
  friend constexpr Duration operator*(Duration a, std::int64_t factor) {
    return Duration{a.ns_ * factor};
  }
  friend constexpr Duration operator/(Duration a, std::int64_t divisor) {
    return Duration{a.ns_ / divisor};
  }
  friend constexpr auto operator<=>(Duration, Duration) = default;

 private:
  constexpr explicit Duration(std::int64_t ns) : ns_(ns) {}
  std::int64_t ns_{};
};

/// A time of the driver's clock, in nanoseconds since that clock's start.
class Instant {
 public:
  constexpr Instant() = default;
  constexpr explicit Instant(Duration since_start) : since_start_(since_start) {}

  static constexpr Instant never() {
    return Instant{Duration::nanoseconds(std::numeric_limits<std::int64_t>::max())};
  }

  [[nodiscard]] constexpr Duration since_start() const { return since_start_; }

  friend constexpr Instant operator+(Instant at, Duration span) {
    return Instant{at.since_start_ + span};
  }
  friend constexpr Instant operator-(Instant at, Duration span) {
    return Instant{at.since_start_ - span};
  }
  friend constexpr Duration operator-(Instant a, Instant b) {
    return a.since_start_ - b.since_start_;
  }
  friend constexpr auto operator<=>(Instant, Instant) = default;

 private:
  Duration since_start_{};
};

/// Time encoded as an exponent: 4.096 us * 2^n, 5 bits. For timeouts, 0 means infinite.
class TimeoutExponent {
 public:
  static constexpr std::uint8_t kMax = 31;

  constexpr TimeoutExponent() = default;
  constexpr explicit TimeoutExponent(std::uint8_t exponent) : exponent_(exponent) {
    WEFT_ASSERT(exponent <= kMax, "exponents of timeouts have five bits");
  }

  [[nodiscard]] constexpr std::uint8_t value() const { return exponent_; }
  [[nodiscard]] constexpr bool is_infinite() const { return exponent_ == 0; }
  [[nodiscard]] constexpr Duration duration() const {
    return Duration::nanoseconds(std::int64_t{4096} << exponent_);
  }

  friend constexpr auto operator<=>(TimeoutExponent, TimeoutExponent) = default;

 private:
  std::uint8_t exponent_{};
};

/// Scale of protocol timeouts, in millionths, so that tests need not wait for seconds. A nonzero
/// span never becomes zero.
class TimeScale {
 public:
  static constexpr std::uint32_t kOne = 1'000'000;  // as specified
  static constexpr std::uint32_t kMin = 1'000;      // policy, as kMax
  static constexpr std::uint32_t kMax = 1'000'000'000;

  constexpr TimeScale() = default;
  constexpr explicit TimeScale(std::uint32_t millionths) : millionths_(millionths) {
    WEFT_ASSERT(millionths >= kMin && millionths <= kMax,
                "the scale was checked where it was read");
  }

  [[nodiscard]] constexpr std::uint32_t millionths() const { return millionths_; }
  [[nodiscard]] constexpr double factor() const { return millionths_ / double{kOne}; }

  [[nodiscard]] constexpr Duration apply(Duration span) const {
    if (millionths_ == kOne) {
      return span;
    }
    const std::int64_t whole = span.nanoseconds() / kOne * millionths_;
    const std::int64_t rest = span.nanoseconds() % kOne * millionths_;
    return Duration::nanoseconds(whole + (rest + kOne - 1) / kOne);
  }

  friend constexpr bool operator==(TimeScale, TimeScale) = default;

 private:
  std::uint32_t millionths_{kOne};
};

}  // namespace weft
